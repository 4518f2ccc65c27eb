//! Spare blocks for loops that free and allocate one size over and over.
//!
//! With one block in such a loop every allocation must ask whether the work before its free is done: an event and a query, most
//! of what a hit costs. With a few blocks one event answers for all of them. So a size that is asked about again and again
//! gets more blocks, one at a time, while all whole blocks of the context that round up to the same multiple of 2 MiB, whoever
//! asked for them, are 16 MiB at most. There are four such sizes: the spare blocks of a context are 64 MiB at most.
//!
//! A spare is taken within a hit. So it must cost nobody anything: it is not taken while somebody is refused, while more waits
//! than should, above the threshold of the limit, or while memory goes back to the driver, which may wait for kernels. Until it is
//! in the books it counts as [`leaving`](super::state::State::leaving): who is refused for its sake waits, and gives it back.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::context::Pool;
use super::ladder::Way;
use super::sizes::Fit;
use super::state::State;
use crate::cuda::Driver;

/// Questions about one size before it gets another block.
const PATIENCE: u32 = 64;
/// Each time the driver has none, it takes twice as many; so often.
const MOST_DOUBLINGS: u32 = 14;
/// Bytes of whole blocks of one size beyond which none is a spare.
const MOST_BYTES: u64 = 16 << 20;
/// Sizes above this get none.
const LARGEST: u64 = MOST_BYTES / 2;
const STEP: u64 = 2 << 20;

#[derive(Debug, Default, Clone, Copy)]
struct Size {
    /// Questions since the last decision.
    asked: u32,
    /// Times in a row that the driver had none.
    failures: u32,
    /// Bytes of all whole blocks, each rounded up to a step.
    held: u64,
}

/// By size of whole blocks, in steps of 2 MiB.
#[derive(Debug, Default)]
pub(super) struct Spares([Size; (LARGEST / STEP) as usize]);

impl Spares {
    fn of(&mut self, bytes: u64) -> Option<&mut Size> {
        self.0.get_mut(bytes.div_ceil(STEP).checked_sub(1)? as usize)
    }

    /// A block of the size was to be had only after asking the driver what is done. True if it is time for another block; then the
    /// count starts anew, whether or not there is one to be had.
    fn asked(&mut self, bytes: u64) -> bool {
        let Some(size) = self.of(bytes) else { return false };
        size.asked = size.asked.saturating_add(1);
        if size.asked < PATIENCE << size.failures {
            return false;
        }
        size.asked = 0;
        size.held + bytes.next_multiple_of(STEP) <= MOST_BYTES
    }

    /// The driver had none.
    fn failed(&mut self, bytes: u64) {
        if let Some(size) = self.of(bytes) {
            size.failures = (size.failures + 1).min(MOST_DOUBLINGS);
        }
    }

    /// A whole block came from the driver.
    pub(super) fn came(&mut self, bytes: u64) {
        if let Some(size) = self.of(bytes) {
            (size.held, size.failures) = (size.held + bytes.next_multiple_of(STEP), 0);
        }
    }

    /// A whole block goes back to the driver.
    pub(super) fn went(&mut self, bytes: u64) {
        if let Some(size) = self.of(bytes) {
            let held = size.held.saturating_sub(bytes.next_multiple_of(STEP));
            *size = Size { held, ..Size::default() };
        }
    }
}

impl<D: Driver> Pool<D> {
    /// After a hit that had to ask what is done: whether to take a spare. If so it is on its way already.
    pub(super) fn spare_is_due(&self, state: &mut State, fit: Fit) -> Option<Way<'_>> {
        let threshold = self.config.collect_above.unwrap_or(u64::MAX);
        let is_due = fit.slots == 1
            && state.spares.asked(fit.slot_bytes)
            && self.pressed.load(Relaxed) == 0
            && self.over_waiting_bound().is_none()
            && self.book.reserved.get() + fit.segment_bytes() <= threshold;
        let way = is_due.then(|| self.try_way()).flatten()?;
        state.leaving += 1;
        Some(way)
    }

    /// Takes a segment that nobody asked for, if the driver and the limit have one.
    pub(super) fn take_spare(&self, fit: Fit, way: Way<'_>) {
        let answer = self.driver.allocate(fit.segment_bytes());
        let mut state = self.lock();
        let booked = answer.and_then(|address| self.book_segment(&mut state, address, fit));
        if booked.is_err() {
            state.spares.failed(fit.slot_bytes);
        }
        state.leaving = state.leaving.saturating_sub(1);
        drop(state);
        self.returns.fetch_add(1, Release);
        drop(way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spare blocks after many questions about a size, of which the driver has enough.
    fn taken(spares: &mut Spares, bytes: u64) -> usize {
        let due = (0..10_000).filter(|_| {
            let is_due = spares.asked(bytes);
            if is_due {
                spares.came(bytes);
            }
            is_due
        });
        due.count()
    }

    #[test]
    fn a_size_gets_sixteen_mebibytes_of_blocks_at_most() {
        for (bytes, most) in
            [(512, 8), (1 << 20, 8), (2 << 20, 8), (6 << 20, 2), (8 << 20, 2), (10 << 20, 0)]
        {
            assert_eq!(taken(&mut Spares::default(), bytes), most, "{bytes}");
        }
        assert_eq!(taken(&mut Spares::default(), u64::MAX), 0);
    }

    #[test]
    fn all_blocks_of_the_size_count() {
        let mut spares = Spares::default();
        spares.came(512);
        (0..6).for_each(|_| spares.came(2 << 20));
        assert_eq!(taken(&mut spares, 1 << 20), 1);
        spares.went(512);
        assert_eq!(taken(&mut spares, 2 << 20), 1);
        assert_eq!(taken(&mut spares, 4 << 20), 4);
    }

    #[test]
    fn a_size_that_is_seldom_asked_about_gets_none() {
        let mut spares = Spares::default();
        assert!(!(1..PATIENCE).any(|_| spares.asked(1 << 20)));
        spares.went(1 << 20);
        assert!(!(1..PATIENCE).any(|_| spares.asked(1 << 20)));
        assert!(spares.asked(1 << 20));
    }

    #[test]
    fn a_driver_that_has_none_is_asked_ever_more_seldom() {
        let mut spares = Spares::default();
        let wait = |spares: &mut Spares| (1..).find(|_| spares.asked(1 << 20));
        for doublings in (0..MOST_DOUBLINGS).chain([MOST_DOUBLINGS; 3]) {
            assert_eq!(wait(&mut spares), Some(PATIENCE << doublings));
            spares.failed(1 << 20);
        }
        spares.went(1 << 20);
        assert_eq!(wait(&mut spares), Some(PATIENCE));
        spares.failed(1 << 20);
        spares.came(1 << 20);
        assert_eq!(wait(&mut spares), Some(PATIENCE));
    }
}
