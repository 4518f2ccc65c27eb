//! What the pool does when no block fits: take more memory, and before it refuses, give back everything that it can.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use super::context::Pool;
use super::segment::SlotState;
use super::sizes::Fit;
use super::state::State;
use super::waiting::Ticket;
use crate::cuda::{DevicePtr, Driver, Failure};

/// How long a request that would be refused otherwise waits for work in flight.
const LAST_PATIENCE_MS: u64 = 30_000;

impl<D: Driver> Pool<D> {
    /// Takes a segment from the driver. When the driver has none, each rung gives something back and then searches again and
    /// asks again: cached segments; what waits for work in flight; what another thread is giving back; at last any slot that is large enough, and a block of the
    /// very size that was asked.
    pub(super) fn grow(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        type Rung<D> = fn(&Pool<D>) -> bool;
        let rungs: [Rung<D>; 4] =
            [|_| true, Pool::flush, Pool::flush_after_waiting, Pool::await_returns];
        for rung in rungs {
            if !rung(self) {
                continue;
            }
            let found = self.search(&mut self.lock(), fit, tag);
            if let Some(address) = found {
                return Ok(address);
            }
            match self.take_segment(fit, tag) {
                Err(Failure::OutOfMemory) => {}
                answer => return answer,
            }
        }
        if let Some(address) = self.lock().take_any(fit, tag) {
            return Ok(address);
        }
        match fit.exact() {
            exact if exact != fit => self.take_segment(exact, tag),
            _ => Err(Failure::OutOfMemory),
        }
    }

    fn take_segment(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        let address = self.driver.allocate(fit.segment_bytes())?;
        self.book.driver_allocations.fetch_add(1, Relaxed);
        let mut state = self.lock();
        state.insert(address, fit, self.driver.now_ms());
        state.move_slot((address, 0), SlotState::Live, Some((fit.requested, tag)));
        Ok(address)
    }

    /// Waits for a batch, and makes its slots and all earlier ones ready. False if the wait failed or took too long.
    pub(super) fn wait(&self, ticket: Ticket, patience_ms: u64) -> bool {
        let done = self.driver.wait(*ticket.event, patience_ms).is_ok_and(|done| done);
        let mut state = self.lock();
        if done && !state.dead {
            let settled = state.waiting.done_up_to(ticket.number);
            self.recycle(state.settle(settled, self.driver.now_ms()));
        }
        if !state.dead {
            self.recycle(std::sync::Arc::into_inner(ticket.event).into_iter().collect());
        }
        done
    }

    /// Waits until another thread that gives segments back is done. True if there was one.
    fn await_returns(&self) -> bool {
        let returner = self.returner.load(Relaxed);
        if returner == 0 || returner == this_thread() {
            return false;
        }
        drop(self.returning.lock());
        true
    }

    /// Gives every idle segment back. True if there was one.
    fn flush(&self) -> bool {
        let flushed = self.release_idle(0, 0) > 0;
        if flushed {
            self.book.flushes.fetch_add(1, Relaxed);
        }
        flushed
    }

    /// Waits for everything in flight, then gives every idle segment back. True if anything was in flight or idle.
    fn flush_after_waiting(&self) -> bool {
        let ticket = {
            let mut state = self.lock();
            if state.captures > 0 {
                return false;
            }
            self.record(&mut state);
            state.waiting.newest()
        };
        let waited = ticket.is_some_and(|ticket| {
            self.book.waits.fetch_add(1, Relaxed);
            self.wait(ticket, LAST_PATIENCE_MS)
        });
        let without_event = self.lock().waiting.open_len() > 0;
        let synchronised = without_event && self.synchronise();
        self.flush() || waited || synchronised
    }

    /// Everything that is cached, or waits, goes back to the driver; waits for the work in flight. True if there was anything.
    pub fn release_all(&self) -> bool {
        self.flush_after_waiting()
    }

    /// The same, one segment at a time and only while the device has no work in flight, so that nobody waits. Returns the number
    /// of segments.
    pub fn release_while_idle(&self, idle_ms: u64, retain: u64) -> usize {
        let mut count = 0;
        while self.is_device_idle() {
            let oldest = self.lock().idle().first().copied();
            let Some((since, address, _)) = oldest else { break };
            let mut state = self.lock();
            let cached: u64 = state.idle().iter().map(|&(_, _, bytes)| bytes).sum();
            let due = self.driver.now_ms().saturating_sub(since) >= idle_ms && cached > retain;
            let still_idle = state.segments.get(&address).is_some_and(|segment| segment.is_idle());
            if !(due && still_idle) {
                break;
            }
            let taken = state.remove(address);
            self.give_back(state, taken.into_iter().collect());
            count += 1;
        }
        count
    }

    /// Gives segments back that nobody used for `idle_ms`, the longest idle first, down to `retain` cached bytes. Returns the
    /// number of segments. Does nothing while a stream captures.
    pub fn release_idle(&self, idle_ms: u64, retain: u64) -> usize {
        let mut state = self.lock();
        if state.captures > 0 || state.dead {
            return 0;
        }
        let now = self.driver.now_ms();
        let idle = state.idle();
        let mut cached: u64 = idle.iter().map(|&(_, _, bytes)| bytes).sum();
        let mut taken = Vec::new();
        for (since, address, bytes) in idle {
            if now.saturating_sub(since) < idle_ms || cached <= retain {
                break;
            }
            cached -= bytes;
            taken.extend(state.remove(address));
        }
        let count = taken.len();
        self.give_back(state, taken);
        count
    }

    /// Whether some segment has been idle for `idle_ms` beyond `retain`.
    pub fn has_idle(&self, idle_ms: u64, retain: u64) -> bool {
        let state = self.lock();
        let idle = state.idle();
        let cached: u64 = idle.iter().map(|&(_, _, bytes)| bytes).sum();
        let oldest = idle.first().map_or(u64::MAX, |&(since, _, _)| since);
        cached > retain && self.driver.now_ms().saturating_sub(oldest) >= idle_ms
    }

    /// Whether the context has no work in flight at this moment. False while a stream captures.
    pub fn is_device_idle(&self) -> bool {
        let mut state = self.lock();
        if state.captures > 0 || state.dead {
            return false;
        }
        self.record(&mut state);
        let settled = state.waiting.poll(|event| self.driver.is_done(event));
        self.recycle(state.settle(settled, self.driver.now_ms()));
        let Ok(event) = self.driver.record() else { return false };
        let done = self.driver.is_done(event);
        self.driver.recycle(event);
        done
    }

    /// Above the threshold, the longest idle segments make room for one that is about to be taken.
    pub(super) fn collect_garbage(&self, bytes: u64) {
        let Some(threshold) = self.config.collect_above else { return };
        let mut over = (self.book.reserved.get() + bytes).saturating_sub(threshold);
        if over == 0 {
            return;
        }
        let mut state = self.lock();
        if state.captures > 0 {
            return;
        }
        let mut taken = Vec::new();
        for (_, address, bytes) in state.idle() {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(bytes);
            taken.extend(state.remove(address));
        }
        if !taken.is_empty() {
            self.book.garbage_collections.fetch_add(1, Relaxed);
        }
        self.give_back(state, taken);
    }

    /// Gives segments to the driver that are out of the books already. What a capture that begins meanwhile forbids is given
    /// back after it.
    pub(super) fn give_back(&self, state: MutexGuard<'_, State>, segments: Vec<(u64, u64)>) {
        drop(state);
        if segments.is_empty() {
            return;
        }
        // A driver that calls back into the pool, as that of a test may, is in the same return.
        let outer = self.returner.load(Relaxed);
        let returning = (outer != this_thread()).then(|| self.returning.lock());
        self.returner.store(this_thread(), Relaxed);
        for (address, bytes) in segments {
            let mut state = self.lock();
            if state.captures > 0 {
                state.doomed.push((address, bytes));
                continue;
            }
            drop(state);
            self.book.driver_frees.fetch_add(1, Relaxed);
            // An error here belongs to earlier work, and the driver reports it to the program at its next call.
            let _ = self.driver.free(address, bytes);
        }
        if returning.is_some() {
            self.returner.store(0, Relaxed);
        }
    }
}

/// A number that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
