//! Counters that threads do not fight over.
//!
//! Every thread counts in a *lane* of its own, written by nobody else; the sum over the lanes is exact. The peak of a sum is
//! harder: it needs the sum after every step. So a lane remembers what the others hold, and looks again whenever another lane
//! has been at work since its last step. Threads that are at it all the time would do nothing else: after a row of looks with
//! little in between a lane looks less and less often, at most every 4096 steps. So peaks are exact while threads take turns now and
//! then, and else off by at most what the others did meanwhile.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Looks with few steps in between, after which a lane begins to skip some.
const ROW: u32 = 16;
/// What is few.
const FEW: u32 = 64;
/// Steps without a look: 2 to this power at most.
const LONGEST: u32 = 12;

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
    /// Bytes given back to the driver since more was held than the configuration's threshold.
    pub collected_bytes: u64,
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
    /// Steps since the last look, those that were skipped left out.
    steps: u32,
    /// Steps that are skipped yet.
    skip: u32,
    row: u32,
}

/// All lanes of a device.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    books: Mutex<Vec<Arc<Book>>>,
    ids: AtomicU64,
    /// The lane that took the last step that was not skipped.
    active: Apart<AtomicU64>,
    peaks: Apart<[AtomicI64; WHATS]>,
    /// Peak of the allocated bytes since the last trim: what the promise of memory goes by.
    recent: Apart<AtomicI64>,
}

/// Something with cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl Lanes {
    fn books(&self) -> MutexGuard<'_, Vec<Arc<Book>>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lane(&self) -> Lane {
        let book = Arc::new(Book::default());
        let mut books = self.books();
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
            skip: 0,
            row: 0,
        }
    }

    fn sums(&self) -> [i64; WHATS] {
        let books = self.books();
        std::array::from_fn(|what| books.iter().map(|book| book.net(what)).sum())
    }

    #[cold]
    fn look(&self, lane: &mut Lane) {
        let sums = self.sums();
        lane.others = std::array::from_fn(|what| sums[what] - lane.book.net(what));
        self.active.0.store(lane.id, Relaxed);
        lane.row = if lane.steps < FEW { lane.row + 1 } else { 0 };
        lane.steps = 0;
        if let Some(over) = lane.row.checked_sub(ROW) {
            lane.skip = 1 << over.min(LONGEST);
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
            if total > self.peaks.0[what].load(Relaxed) {
                self.peaks.0[what].fetch_max(total, Relaxed);
            }
            if what == What::Allocated as usize && total > self.recent.0.load(Relaxed) {
                self.recent.0.fetch_max(total, Relaxed);
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
        if lane.skip > 0 {
            lane.skip -= 1;
        } else if self.active.0.load(Relaxed) == lane.id {
            lane.steps = lane.steps.saturating_add(1);
        } else {
            self.look(lane);
        }
    }

    pub(super) fn count(&self, what: What) -> Count {
        let what = what as usize;
        let books = self.books();
        let sum = |of: fn(&Book) -> &[AtomicU64; WHATS]| -> u64 {
            books.iter().map(|book| of(book)[what].load(Relaxed)).fold(0, u64::wrapping_add)
        };
        let (allocated, freed) = (sum(|book| &book.added), sum(|book| &book.taken));
        let current = allocated.saturating_sub(freed);
        let peak = (self.peaks.0[what].load(Relaxed).max(0) as u64).max(current);
        Count { current, peak, allocated, freed }
    }

    /// Bytes in the program's hands now, and at most since the last trim.
    pub(super) fn live(&self) -> (u64, u64) {
        let now = self.sums()[What::Allocated as usize].max(0);
        (now as u64, self.recent.0.load(Relaxed).max(now) as u64)
    }

    /// Memory was trimmed to what is live.
    pub(super) fn forget_recent(&self) {
        self.recent.0.store(self.sums()[What::Allocated as usize], Relaxed);
    }

    /// From now on peaks are those from here.
    pub(super) fn reset_peaks(&self) {
        for (peak, now) in self.peaks.0.iter().zip(self.sums()) {
            peak.store(now, Relaxed);
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
