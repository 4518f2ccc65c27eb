//! The pool of one context: allocate, free, give back.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::gauges::PoolBook;
use super::inspect::{WrongFree, find_live, live_slots};
use super::sizes::Fit;
use super::state::{Slack, State};
use super::waiting::{Settled, Waiting};
use crate::cuda::{DevicePtr, Driver, Event, Failure};

/// How long an allocation waits for work in flight before it takes more memory instead. A kernel that needs the waiting thread
/// would never end.
const PATIENCE_MS: u64 = 1000;

/// Batches that one allocation waits for before it takes more memory.
const MOST_WAITS: usize = 4;
/// Bytes that may wait however little the program holds: so the device has a next piece of work while the host waits.
const WAITING_FLOOR: u64 = 256 << 20;

/// What a pool is told at its birth.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// `max_split_size_mb`, in bytes.
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb`, in bytes.
    pub max_non_split_rounding: u64,
    /// `garbage_collection_threshold` of the limit or the device, in bytes.
    pub collect_above: Option<u64>,
    /// `slabs`
    pub slabs: bool,
    /// `free_barrier`
    pub free_barrier: bool,
}

/// The pool of one context.
#[derive(Debug)]
pub struct Pool<D> {
    pub(super) driver: D,
    pub(super) config: Config,
    pub(super) book: &'static PoolBook,
    slabs: AtomicBool,
    pub(super) state: Mutex<State>,
    /// Held while the context is synchronised: a capture must not begin meanwhile.
    barrier: Mutex<()>,
    /// Held while segments that are in no book are on their way to the driver or from it; and by which thread.
    pub(super) returning: Mutex<()>,
    pub(super) returner: AtomicUsize,
    /// Segments that arrived: with the driver, or as spares.
    pub(super) returns: AtomicU64,
    /// Requests that were refused once and are tried again.
    pub(super) pressed: AtomicUsize,
}

impl<D: Driver> Pool<D> {
    /// An empty pool. Pools of one device may share a book.
    pub fn new(driver: D, config: Config, book: &'static PoolBook) -> Self {
        let slack = Slack {
            max_split_size: config.max_split_size,
            max_non_split_rounding: config.max_non_split_rounding,
        };
        let state = Mutex::new(State::new(slack, book));
        Pool {
            driver,
            config,
            book,
            slabs: AtomicBool::new(config.slabs),
            state,
            barrier: Mutex::new(()),
            returning: Mutex::new(()),
            returner: AtomicUsize::new(0),
            returns: AtomicU64::new(0),
            pressed: AtomicUsize::new(0),
        }
    }

    /// The driver that the pool was made with.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `bytes`, which is not 0. `tag` is kept with it.
    ///
    /// # Errors
    /// What the driver says, after everything that could be given back was.
    pub fn allocate(&self, bytes: u64, tag: u64) -> Result<DevicePtr, Failure> {
        let fit = Fit::of(bytes, self.slabs.load(Relaxed));
        let address = self.find(fit, tag)?;
        self.book.allocations.fetch_add(1, Relaxed);
        Ok(address)
    }

    fn find(&self, fit: Fit, tag: u64) -> Result<DevicePtr, Failure> {
        for _ in 0..MOST_WAITS {
            let ticket = {
                let mut state = self.lock();
                if let Some((address, asked)) = self.search(&mut state, fit, tag) {
                    let spare = asked.then(|| self.spare_is_due(&mut state, fit)).flatten();
                    drop(state);
                    if let Some(way) = spare {
                        self.take_spare(fit, way);
                    }
                    return Ok(address);
                }
                let over = self.over_waiting_bound().filter(|_| state.may_call());
                over.and_then(|over| {
                    let awaited =
                        state.awaited(fit).and_then(|number| state.waiting.ticket(number));
                    awaited.or_else(|| state.waiting.ticket_for(over))
                })
            };
            let Some(ticket) = ticket else { break };
            self.book.waits.fetch_add(1, Relaxed);
            if !self.wait(ticket, PATIENCE_MS) {
                break;
            }
        }
        self.collect_garbage(fit.segment_bytes());
        self.grow(fit, tag)
    }

    /// A ready slot; if there is none, after asking which events are done. And whether that was asked.
    pub(super) fn search(
        &self,
        state: &mut State,
        fit: Fit,
        tag: u64,
    ) -> Option<(DevicePtr, bool)> {
        let mut found = state.take(fit, tag);
        let asks = found.is_none() && state.may_call() && !state.waiting.is_empty();
        if asks {
            self.record(state);
            let settled = state.waiting.poll(|event| self.driver.is_done(event));
            self.recycle(state.settle(settled, self.driver.now_ms()));
            found = state.take(fit, tag);
        }
        self.book.hits.fetch_add(u64::from(found.is_some()), Relaxed);
        found.map(|address| (address, asks))
    }

    /// By how much more waits than the program ever held. An allocation brings it below before it takes more memory: so what is
    /// held for work in flight is bounded, whatever the program does.
    pub(super) fn over_waiting_bound(&self) -> Option<u64> {
        let bound = self.book.live.peak().max(WAITING_FLOOR);
        (self.book.waiting.get() + 1).checked_sub(bound).filter(|&over| over > 0)
    }

    /// While the guard lives, freed blocks go straight back to the driver: for somebody who was refused memory and asks again. What is
    /// cached already is his to release.
    pub fn press(&self) -> Pressed<'_> {
        self.pressed.fetch_add(1, Relaxed);
        Pressed(&self.pressed)
    }

    /// Takes a block back. It is handed out again once the work in flight is done. `tag` is kept for [`WrongFree`].
    ///
    /// # Errors
    /// See [`WrongFree`]; nothing has changed then.
    pub fn free(&self, address: DevicePtr, tag: u64) -> Result<(), WrongFree> {
        // Without context events the driver's own way is the only one: wait for the work at the free.
        let barrier = self.config.free_barrier || !self.driver.has_context_events();
        let synchronised = barrier && {
            find_live(&self.lock(), address)?;
            self.synchronise()
        };
        let mut state = self.lock();
        let member = find_live(&state, address)?;
        self.book.frees.fetch_add(1, Relaxed);
        let unpooled = state.unpooled;
        let Some(segment) = state.segments.get_mut(&member.0) else {
            return Err(WrongFree::Unknown);
        };
        segment.slots[member.1 as usize].freed_by = tag;
        let whole = segment.is_whole();
        // A slot of a slab can't go back alone: it stays out of use until the whole slab can.
        segment.slots[member.1 as usize].exported |= unpooled;
        // The driver knows what a peer has open and whose work to wait for; a new owner must not be given it.
        let never_again = unpooled || segment.is_exported();
        // Somebody has been refused: what is freed now is for the driver to give.
        let never_again = never_again || self.pressed.load(Relaxed) > 0;
        // During a capture nothing settles: a long one would fill the card.
        let over = self.over_waiting_bound().is_some();
        if whole && (never_again || (over && state.is_capturing())) {
            let doomed = state.remove(member.0);
            self.give_back(state, doomed.into_iter().collect());
            return Ok(());
        }
        if synchronised {
            state.settle(Settled::of(vec![member]), self.driver.now_ms());
            return Ok(());
        }
        state.start_waiting(member);
        if over || state.waiting.open_len() >= Waiting::OPEN {
            self.record(&mut state);
        }
        Ok(())
    }

    /// Records an event behind the freed slots that have none. Not at the free itself: one event serves a burst of frees, and the
    /// free costs no driver call. What is launched between the free and the event delays the slot; so nobody waits for an event
    /// without an end.
    pub(super) fn record(&self, state: &mut State) {
        if !state.may_call() || state.waiting.open_len() == 0 {
            return;
        }
        if !state.waiting.has_room() {
            let settled = state.waiting.poll(|event| self.driver.is_done(event));
            self.recycle(state.settle(settled, self.driver.now_ms()));
        }
        if state.waiting.has_room()
            && let Ok(event) = self.driver.record()
        {
            state.waiting.close(event);
            self.book.events_recorded.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn recycle(&self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.driver.recycle(event));
    }

    /// Waits for all work of the context, unless a stream captures, and makes ready what was freed before without an event. False
    /// if it did not.
    pub(super) fn synchronise(&self) -> bool {
        let _barrier = self.barrier.lock();
        let earlier = {
            let mut state = self.lock();
            if !state.may_call() {
                return false;
            }
            state.waiting.take_open()
        };
        let done = self.driver.synchronise().is_ok();
        let mut state = self.lock();
        if done {
            state.settle(Settled::of(earlier.0), self.driver.now_ms());
        } else {
            state.waiting.put_back(earlier);
        }
        done
    }

    /// Moves what is done from waiting to ready; for moments when the program has synchronised. Does nothing if another
    /// thread is in the pool.
    pub fn settle(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.may_call() && !state.waiting.is_empty() {
            self.record(&mut state);
            let settled = state.waiting.poll(|event| self.driver.is_done(event));
            self.recycle(state.settle(settled, self.driver.now_ms()));
        }
    }

    /// A stream of the process begins or ended to capture. While one does, the pool records and asks nothing.
    pub fn capture(&self, begins: bool) {
        let mut state = self.lock();
        if begins {
            state.captures += 1;
            drop(state);
            // Whoever synchronises at this moment is let finish; the next one sees the count.
            drop(self.barrier.lock());
            return;
        }
        state.captures = state.captures.saturating_sub(1);
        self.record(&mut state);
    }

    /// The context may be ending, or lives on after all. While it may, the pool leaves the driver alone.
    pub fn freeze(&self, frozen: bool) {
        self.lock().frozen = frozen;
    }

    /// Whether a stream captures.
    pub fn is_capturing(&self) -> bool {
        self.lock().captures > 0
    }

    /// From now on freed memory goes straight back to the driver: work that no event of this context covers may use it.
    pub fn stop_recycling(&self) {
        self.stop_slabs();
        self.lock().unpooled = true;
    }

    /// From now on small requests get segments of their own.
    pub fn stop_slabs(&self) {
        self.slabs.store(false, Relaxed);
    }

    /// The context is gone and its memory with it: forgets everything. Returns addresses and sizes of what was live, and how
    /// much the pool had from the driver.
    pub fn bury(&self) -> (Vec<(DevicePtr, u64)>, u64) {
        let mut state = self.lock();
        let doomed: u64 = state.doomed.drain(..).map(|(_, bytes)| bytes).sum();
        let reserved = state.segments.values().map(|segment| segment.bytes).sum::<u64>() + doomed;
        state.dead = true;
        // The events died with the context: they are not recycled.
        let _ = state.waiting.all_done();
        let addresses: Vec<u64> = state.segments.keys().copied().collect();
        let mut lost = Vec::new();
        for address in addresses {
            if let Some(segment) = state.segments.get(&address) {
                lost.extend(live_slots(segment));
            }
            state.remove(address);
        }
        // It went with the context.
        state.leaving = 0;
        (lost, reserved)
    }
}

/// See [`Pool::press`].
#[derive(Debug)]
pub struct Pressed<'a>(&'a AtomicUsize);

impl Drop for Pressed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
