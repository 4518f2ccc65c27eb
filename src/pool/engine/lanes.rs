//! Counters that threads do not fight over.
//!
//! Every thread counts in a *lane* of its own, written by nobody else; the sum over the lanes is exact. The peak of a sum is
//! harder: it needs the sum after every step. So a lane remembers what the others hold, and looks again whenever another lane
//! has been at work since its last step. While many work at once it looks less and less often, at most every
//! 64 steps. So peaks are exact as long as threads take turns, and else off by at most what the others did meanwhile.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Steps between two looks at the others, at most.
const LONGEST: u32 = 64;

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    Allocated,
    Requested,
    Blocks,
}

const WHATS: usize = 3;

/// A number, its peak, and what was ever added and taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Now.
    pub current: u64,
    /// The largest so far, or since the peaks were reset.
    pub peak: u64,
    /// Ever added.
    pub allocated: u64,
    /// Ever taken away.
    pub freed: u64,
}

/// The numbers of one device. Bytes, except where another unit is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of blocks in the program's hands.
    pub allocated_bytes: Count,
    /// Of them, what was asked for.
    pub requested_bytes: Count,
    /// Blocks in the program's hands.
    pub allocation: Count,
    /// Bytes that the driver counts for us.
    pub reserved_bytes: Count,
    /// Handles created.
    pub pages_created: u64,
    /// Handles that were taken from one address to another.
    pub pages_moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Requests that no free block held.
    pub misses: u64,
    /// Requests that were refused at first and tried again after something was given back.
    pub alloc_retries: u64,
    /// Requests that were refused.
    pub ooms: u64,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Book {
    added: [AtomicU64; WHATS],
    taken: [AtomicU64; WHATS],
}

impl Book {
    fn net(&self, what: usize) -> i64 {
        self.added[what].load(Relaxed).wrapping_sub(self.taken[what].load(Relaxed)) as i64
    }
}

/// A thread's counters for one device.
#[derive(Debug)]
pub struct Lane {
    id: u64,
    book: Arc<Book>,
    others: [i64; WHATS],
    steps: u32,
    pause: u32,
}

/// All lanes of a device.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    books: Mutex<Vec<Arc<Book>>>,
    ids: AtomicU64,
    /// The lane that took the last step.
    active: AtomicU64,
    peaks: [AtomicI64; WHATS],
}

impl Lanes {
    pub(super) fn lane(&self) -> Lane {
        let book = Arc::new(Book::default());
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread that ended leaves its numbers: they go to one book, so that the list does not grow with every thread.
        let (ended, mut living): (Vec<_>, Vec<_>) =
            books.drain(..).partition(|book| Arc::strong_count(book) == 1);
        living.push(Arc::clone(&book));
        for book in &ended[..ended.len().saturating_sub(1)] {
            let kept = &ended[ended.len() - 1];
            for what in 0..WHATS {
                kept.added[what].fetch_add(book.added[what].load(Relaxed), Relaxed);
                kept.taken[what].fetch_add(book.taken[what].load(Relaxed), Relaxed);
            }
        }
        living.extend(ended.last().cloned());
        *books = living;
        Lane {
            id: self.ids.fetch_add(1, Relaxed) + 1,
            book,
            others: [0; WHATS],
            steps: 0,
            pause: 0,
        }
    }

    fn sum(&self, what: usize, of: impl Fn(&Book) -> i64) -> i64 {
        let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = what;
        books.iter().map(|book| of(book)).sum()
    }

    fn look(&self, lane: &mut Lane) {
        for what in 0..WHATS {
            lane.others[what] = self.sum(what, |book| book.net(what)) - lane.book.net(what);
        }
    }

    /// A block of these numbers was handed out.
    #[inline]
    pub(super) fn add(&self, lane: &mut Lane, numbers: [u64; WHATS]) {
        self.step(lane);
        for (what, number) in numbers.into_iter().enumerate() {
            let added = &lane.book.added[what];
            added.store(added.load(Relaxed).wrapping_add(number), Relaxed);
            let total = lane.others[what] + lane.book.net(what);
            if total > self.peaks[what].load(Relaxed) {
                self.peaks[what].fetch_max(total, Relaxed);
            }
        }
    }

    /// A block of these numbers was taken back.
    #[inline]
    pub(super) fn sub(&self, lane: &mut Lane, numbers: [u64; WHATS]) {
        self.step(lane);
        for (what, number) in numbers.into_iter().enumerate() {
            let taken = &lane.book.taken[what];
            taken.store(taken.load(Relaxed).wrapping_add(number), Relaxed);
        }
    }

    #[inline]
    fn step(&self, lane: &mut Lane) {
        if self.active.load(Relaxed) == lane.id {
            (lane.steps, lane.pause) = (0, 0);
        } else if lane.steps > 0 {
            lane.steps -= 1;
        } else {
            self.look(lane);
            self.active.store(lane.id, Relaxed);
            lane.pause = (lane.pause * 2 + 1).min(LONGEST);
            lane.steps = lane.pause;
        }
    }

    pub(super) fn count(&self, what: What) -> Count {
        let what = what as usize;
        let allocated = self.sum(what, |book| book.added[what].load(Relaxed) as i64) as u64;
        let freed = self.sum(what, |book| book.taken[what].load(Relaxed) as i64) as u64;
        let current = allocated.saturating_sub(freed);
        let peak = (self.peaks[what].load(Relaxed).max(0) as u64).max(current);
        Count { current, peak, allocated, freed }
    }

    /// Bytes in the program's hands now, and at most so far.
    pub(super) fn live(&self) -> (u64, u64) {
        let count = self.count(What::Allocated);
        (count.current, count.peak)
    }

    /// From now on peaks are those from here.
    pub(super) fn reset_peaks(&self) {
        for what in 0..WHATS {
            let now = self.sum(what, |book| book.net(what));
            self.peaks[what].store(now, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_exact_while_threads_take_turns() {
        let lanes = Lanes::default();
        let (mut one, mut two) = (lanes.lane(), lanes.lane());
        lanes.add(&mut one, [10, 10, 1]);
        lanes.add(&mut two, [10, 10, 1]);
        lanes.sub(&mut two, [10, 10, 1]);
        lanes.sub(&mut one, [10, 10, 1]);
        lanes.add(&mut two, [15, 15, 1]);
        assert_eq!(
            lanes.count(What::Allocated),
            Count { current: 15, peak: 20, allocated: 35, freed: 20 }
        );
        lanes.reset_peaks();
        assert_eq!(lanes.count(What::Allocated).peak, 15);
    }

    #[test]
    fn what_ended_threads_counted_stays() {
        let lanes = Lanes::default();
        for _ in 0..100 {
            lanes.add(&mut lanes.lane(), [2, 1, 1]);
        }
        let _last = lanes.lane();
        assert_eq!(lanes.count(What::Blocks).current, 100);
        assert_eq!(lanes.count(What::Allocated).peak, 200);
        assert!(lanes.books.lock().unwrap().len() <= 3);
    }
}
