//! What the pool does when no block fits: take more memory, and before it refuses, give back everything that it can.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{MutexGuard, PoisonError, TryLockError};

use super::context::Pool;
use super::segment::SlotState;
use super::sizes::Fit;
use super::state::State;
use super::waiting::Ticket;
use crate::cuda::{CuResult, DevicePtr, Driver, Failure};

/// How long a request that would be refused otherwise waits for work in flight.
const LAST_PATIENCE_MS: u64 = 10_000;
/// How often the driver is asked while another thread gives memory back.
const MOST_ASKS: usize = 64;

impl<D: Driver> Pool<D> {
    /// Takes a segment from the driver. When the driver has none, each rung gives something back, and then searches and asks
    /// again: cached segments; what waits for work in flight; during a capture all that nobody has; at last any slot that is
    /// large enough, and a block of the very size that was asked. Meanwhile what others free goes straight to the driver.
    pub(super) fn grow(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        type Rung<D> = fn(&Pool<D>) -> bool;
        let rungs: [Rung<D>; 4] =
            [|_| true, Pool::flush, Pool::flush_after_waiting, Pool::flush_during_capture];
        let mut pressed = None;
        for rung in rungs {
            if !rung(self) {
                continue;
            }
            let found = self.search(&mut self.lock(), fit, tag);
            if let Some((address, _)) = found {
                return Ok(address);
            }
            match self.ask(fit, tag) {
                Err(Failure::OutOfMemory) => pressed = pressed.or_else(|| Some(self.press())),
                answer => return answer,
            }
        }
        if let Some(address) = self.lock().take_any(fit, tag) {
            return Ok(address);
        }
        match fit.exact() {
            exact if exact != fit => self.ask(exact, tag),
            _ => Err(Failure::OutOfMemory),
        }
    }

    /// Asks the driver for a segment, again while another thread gives some back: what is on its way to the driver is in no book.
    fn ask(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        for _ in 0..MOST_ASKS {
            let seen = self.returns.load(Acquire);
            match self.take_segment(fit, tag) {
                Err(Failure::OutOfMemory)
                    if self.await_returns() || self.returns.load(Acquire) != seen => {}
                answer => return answer,
            }
        }
        Err(Failure::OutOfMemory)
    }

    fn take_segment(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        let address = self.driver.allocate(fit.segment_bytes())?;
        let mut state = self.lock();
        self.book_segment(&mut state, address, fit)?;
        state.move_slot((address, 0), SlotState::Live, Some((fit.requested, tag)));
        Ok(address)
    }

    /// Writes down what the driver gave. If the context died meanwhile, it went with it, and nobody would ever forget it.
    pub(super) fn book_segment(
        &self,
        state: &mut State,
        address: DevicePtr,
        fit: Fit,
    ) -> Result<(), Failure> {
        self.book.driver_allocations.fetch_add(1, Relaxed);
        if state.dead {
            self.driver.lost(fit.segment_bytes());
            return Err(Failure::Other(CuResult::CONTEXT_IS_DESTROYED));
        }
        state.insert(address, fit, self.driver.now_ms());
        Ok(())
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

    /// Waits until another thread that gives segments back, or takes a spare, is done. True if there was one.
    fn await_returns(&self) -> bool {
        let is_mine = self.returner.load(Relaxed) == this_thread();
        if is_mine || self.lock().leaving == 0 {
            return false;
        }
        // It may be about to take the lock.
        std::thread::yield_now();
        drop(self.returning.lock());
        true
    }

    /// Gives every idle segment back. True if there was one.
    fn flush(&self) -> bool {
        let doomed = self.give_back_doomed();
        let flushed = self.release_idle(0, 0) > 0 || doomed;
        if flushed {
            self.book.flushes.fetch_add(1, Relaxed);
        }
        flushed
    }

    /// Waits for everything in flight, then gives every idle segment back. True if anything was in flight or idle.
    fn flush_after_waiting(&self) -> bool {
        let end = self.driver.now_ms() + LAST_PATIENCE_MS;
        let mut waited = false;
        // The second round is for what found no room behind an event before the first.
        for _ in 0..2 {
            let ticket = {
                let mut state = self.lock();
                self.record(&mut state);
                state.waiting.newest().filter(|_| state.may_call())
            };
            let Some(ticket) = ticket else { break };
            self.book.waits.fetch_add(1, Relaxed);
            if !self.wait(ticket, end.saturating_sub(self.driver.now_ms())) {
                break;
            }
            waited = true;
        }
        if !self.driver.has_context_events() && self.lock().waiting.open_len() > 0 {
            waited |= self.synchronise();
        }
        self.flush() || waited
    }

    /// During a capture, when nothing can be known to be done, everything that nobody has goes back: the driver waits for the work
    /// itself. True if there was anything.
    fn flush_during_capture(&self) -> bool {
        let mut state = self.lock();
        if !state.is_capturing() {
            return false;
        }
        let unowned = state.unowned();
        state.waiting.forget(&unowned);
        let taken: Vec<_> = unowned.iter().filter_map(|&address| state.remove(address)).collect();
        let any = !taken.is_empty();
        self.give_back(state, taken);
        any
    }

    /// Everything that is cached, or waits, goes back to the driver, a spare that is being taken too; waits for the work in flight.
    /// True if there was anything.
    pub fn release_all(&self) -> bool {
        self.await_returns();
        self.flush_after_waiting()
    }

    /// Gives segments back that nobody used for `idle_ms`, the longest idle first, down to `retain` cached bytes: one at a time and
    /// only while the device has no work in flight, so that nobody waits. Returns the number of segments.
    pub fn release_while_idle(&self, idle_ms: u64, retain: u64, at_most: usize) -> usize {
        for count in 0..at_most {
            if !self.is_device_idle() {
                return count;
            }
            let mut state = self.lock();
            let idle = state.idle();
            let cached: u64 = idle.iter().map(|&(_, _, bytes)| bytes).sum();
            let is_due = |since| self.driver.now_ms().saturating_sub(since) >= idle_ms;
            let due = idle.first().filter(|&&(since, _, _)| cached > retain && is_due(since));
            let Some(&(_, address, _)) = due else { return count };
            let taken = state.remove(address);
            self.give_back(state, taken.into_iter().collect());
        }
        at_most
    }

    /// Gives back what was held up while the context might have been ending. True if there was anything.
    pub fn give_back_doomed(&self) -> bool {
        let mut state = self.lock();
        if state.doomed.is_empty() || !(state.may_call() || state.is_capturing()) {
            return false;
        }
        let doomed = std::mem::take(&mut state.doomed);
        state.leaving += doomed.len();
        self.give_back(state, doomed);
        true
    }

    /// Gives segments back that nobody used for `idle_ms`, the longest idle first, down to `retain` cached bytes. Returns the
    /// number of segments, waiting for work in flight if need be. Does nothing while a stream captures.
    pub fn release_idle(&self, idle_ms: u64, retain: u64) -> usize {
        let mut state = self.lock();
        if !state.may_call() {
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
        if !state.may_call() {
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
        if !state.may_call() {
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

    /// Gives segments to the driver that are out of the books already. While they are on their way they are nowhere; `ask` waits
    /// for them. What the driver is not to be asked for now, since the context may be ending, is kept for later.
    pub(super) fn give_back(&self, state: MutexGuard<'_, State>, segments: Vec<(u64, u64)>) {
        drop(state);
        if segments.is_empty() {
            return;
        }
        // A driver that calls back into the pool, as that of a test may, is on the same way.
        let is_inner = self.returner.load(Relaxed) == this_thread();
        let _way = (!is_inner).then(|| {
            let alone = self.returning.lock().unwrap_or_else(PoisonError::into_inner);
            Way::new(&self.returner, alone)
        });
        for segment in segments {
            self.return_segment(segment);
        }
    }

    /// The same way in the other direction. None if somebody is on it: he may be waiting for work in flight.
    pub(super) fn try_way(&self) -> Option<Way<'_>> {
        let alone = match self.returning.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Way::new(&self.returner, alone))
    }

    fn return_segment(&self, (address, bytes): (u64, u64)) {
        let may_free = |state: &State| state.may_call() || state.is_capturing();
        let may = may_free(&self.lock());
        // Another error than a refusal of ours belongs to earlier work, and the driver reports it to the program at its next call.
        let refused = may && self.driver.free(address, bytes) == Err(CuResult::NOT_INITIALIZED);
        let mut state = self.lock();
        state.leaving = state.leaving.saturating_sub(1);
        if (!may || refused) && !state.dead {
            state.doomed.push((address, bytes));
            return;
        }
        drop(state);
        self.book.driver_frees.fetch_add(1, Relaxed);
        self.returns.fetch_add(1, Release);
    }
}

/// While it lives, this thread moves segments that are in no book.
#[derive(Debug)]
pub(super) struct Way<'a> {
    returner: &'a AtomicUsize,
    _alone: MutexGuard<'a, ()>,
}

impl<'a> Way<'a> {
    fn new(returner: &'a AtomicUsize, alone: MutexGuard<'a, ()>) -> Self {
        returner.store(this_thread(), Relaxed);
        Way { returner, _alone: alone }
    }
}

impl Drop for Way<'_> {
    fn drop(&mut self) {
        self.returner.store(0, Relaxed);
    }
}

/// A number that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}
