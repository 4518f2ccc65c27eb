//! Counters that threads do not fight over.
//!
//! Every thread counts in a *lane* of its own, written by nobody else; the sum over the lanes is exact. The peak of a sum is
//! harder: it needs the sum after every step. So a lane remembers what all hold together, and looks again whenever another lane
//! has been at work since its last step. Threads that are at it all the time would do nothing else: after a row of looks with
//! little in between a lane looks less and less often, at most every 4096 steps. So peaks are exact while threads take turns now and
//! then, and else off by at most what the others did meanwhile; the peak that is told is never above that of the memory held.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::stats::{Count, SmallStats};
use super::sync::counters::{Arc, AtomicBool, AtomicI64, AtomicU64, Mutex, MutexGuard};

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
/// Blocks of the heaps for small ones are counted apart from the others.
const CLASSES: usize = 2;
const SLOTS: usize = CLASSES * WHATS;

/// Where the number of a class is: the large blocks' come first.
#[inline]
fn slot(small: bool, what: usize) -> usize {
    usize::from(small) * WHATS + what
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Book {
    added: [AtomicU64; SLOTS],
    taken: [AtomicU64; SLOTS],
    /// Nobody writes here any more. Set after the last number and read before any is: the count of an `Arc` would say the same, but
    /// promises no order.
    is_over: AtomicBool,
}

impl Book {
    #[inline]
    fn net(&self, slot: usize) -> i64 {
        self.added[slot].load(Relaxed).wrapping_sub(self.taken[slot].load(Relaxed)) as i64
    }
}

/// A thread's counters for one device.
#[derive(Debug)]
pub struct Lane {
    id: u64,
    book: Arc<Book>,
    /// What all lanes hold together, as of the last look and this lane's steps since.
    held: [i64; SLOTS],
    /// Steps since the last look, those that were skipped left out.
    steps: u32,
    /// Steps that are skipped yet.
    skip: u32,
    row: u32,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.book.is_over.store(true, Release);
    }
}

/// All lanes of a device.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    books: Mutex<Vec<Arc<Book>>>,
    ids: AtomicU64,
    /// The lane that took the last step that was not skipped.
    active: Apart<AtomicU64>,
    peaks: Apart<Peaks>,
    /// Peak of the allocated bytes since the last trim: what the promise of memory goes by.
    recent: Apart<AtomicI64>,
}

#[derive(Debug, Default)]
struct Peaks {
    all: [AtomicI64; WHATS],
    /// By class.
    each: [AtomicI64; SLOTS],
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
            books.drain(..).partition(|book| book.is_over.load(Acquire));
        living.push(Arc::clone(&book));
        for book in &ended[..ended.len().saturating_sub(1)] {
            let kept = &ended[ended.len() - 1];
            for slot in 0..SLOTS {
                kept.added[slot].fetch_add(book.added[slot].load(Relaxed), Relaxed);
                kept.taken[slot].fetch_add(book.taken[slot].load(Relaxed), Relaxed);
            }
        }
        living.extend(ended.last().cloned());
        *books = living;
        Lane {
            id: self.ids.fetch_add(1, Relaxed) + 1,
            book,
            held: [0; SLOTS],
            steps: 0,
            skip: 0,
            row: 0,
        }
    }

    fn sums(&self) -> [i64; SLOTS] {
        let books = self.books();
        std::array::from_fn(|slot| books.iter().map(|book| book.net(slot)).sum())
    }

    #[cold]
    fn look(&self, lane: &mut Lane) {
        lane.held = self.sums();
        self.active.0.store(lane.id, Relaxed);
        lane.row = if lane.steps < FEW { lane.row + 1 } else { 0 };
        lane.steps = 0;
        if let Some(over) = lane.row.checked_sub(ROW) {
            lane.skip = 1 << over.min(LONGEST);
        }
    }

    /// A block of these numbers was handed out.
    #[inline]
    pub(super) fn add(&self, lane: &mut Lane, small: bool, numbers: [u64; WHATS]) {
        self.step(lane);
        for (what, number) in numbers.into_iter().enumerate() {
            let (own, other) = (slot(small, what), slot(!small, what));
            let added = &lane.book.added[own];
            added.store(added.load(Relaxed).wrapping_add(number), Relaxed);
            let of_class = lane.held[own].wrapping_add(number as i64);
            lane.held[own] = of_class;
            let total = of_class + lane.held[other];
            raise(&self.peaks.0.all[what], total);
            if what == What::Allocated as usize {
                raise(&self.recent.0, total);
            }
        }
        let bytes = slot(small, What::Allocated as usize);
        if lane.held[bytes] > self.peaks.0.each[bytes].load(Relaxed) {
            self.raise_class(lane, small);
        }
    }

    /// The peaks of a class are those of its bytes, and of its other numbers at such moments.
    #[cold]
    fn raise_class(&self, lane: &Lane, small: bool) {
        for slot in (0..WHATS).map(|what| slot(small, what)) {
            self.peaks.0.each[slot].fetch_max(lane.held[slot], Relaxed);
        }
    }

    /// A block of these numbers was taken back.
    #[inline]
    pub(super) fn sub(&self, lane: &mut Lane, small: bool, numbers: [u64; WHATS]) {
        self.step(lane);
        for (what, number) in numbers.into_iter().enumerate() {
            let slot = slot(small, what);
            lane.held[slot] = lane.held[slot].wrapping_sub(number as i64);
            let taken = &lane.book.taken[slot];
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

    fn added_and_taken(&self, slots: &[usize]) -> (u64, u64) {
        let books = self.books();
        let sum = |of: fn(&Book) -> &[AtomicU64; SLOTS]| -> u64 {
            let all = books.iter().flat_map(|book| slots.iter().map(move |&slot| &of(book)[slot]));
            all.map(|number| number.load(Relaxed)).fold(0, u64::wrapping_add)
        };
        (sum(|book| &book.added), sum(|book| &book.taken))
    }

    fn count_of(&self, slots: &[usize], peak: &AtomicI64) -> Count {
        let (allocated, freed) = self.added_and_taken(slots);
        let current = allocated.saturating_sub(freed);
        let peak = (peak.load(Relaxed).max(0) as u64).max(current);
        Count { current, peak, allocated, freed }
    }

    pub(super) fn count(&self, what: What) -> Count {
        let what = what as usize;
        self.count_of(&[slot(false, what), slot(true, what)], &self.peaks.0.all[what])
    }

    pub(super) fn small(&self) -> SmallStats {
        let of = |small, what: What| {
            let slot = slot(small, what as usize);
            self.count_of(&[slot], &self.peaks.0.each[slot])
        };
        SmallStats {
            allocated_bytes: of(true, What::Allocated),
            requested_bytes: of(true, What::Requested),
            allocation: of(true, What::Blocks),
            large_peaks: [What::Allocated, What::Requested, What::Blocks]
                .map(|what| of(false, what).peak),
        }
    }

    fn now(&self) -> i64 {
        let sums = self.sums();
        let what = What::Allocated as usize;
        sums[slot(false, what)] + sums[slot(true, what)]
    }

    /// Bytes in the program's hands now, and at most since the last trim.
    pub(super) fn live(&self) -> (u64, u64) {
        let now = self.now().max(0);
        (now as u64, self.recent.0.load(Relaxed).max(now) as u64)
    }

    /// Memory was trimmed to what is live.
    pub(super) fn forget_recent(&self) {
        self.recent.0.store(self.now(), Relaxed);
    }

    /// From now on peaks are those from here.
    pub(super) fn reset_peaks(&self) {
        let sums = self.sums();
        for (peak, now) in self.peaks.0.each.iter().zip(sums) {
            peak.store(now, Relaxed);
        }
        for (what, peak) in self.peaks.0.all.iter().enumerate() {
            peak.store(sums[slot(false, what)] + sums[slot(true, what)], Relaxed);
        }
    }
}

#[inline]
fn raise(peak: &AtomicI64, to: i64) {
    if to > peak.load(Relaxed) {
        peak.fetch_max(to, Relaxed);
    }
}

#[cfg(all(test, not(any(cenote_loom, cenote_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_exact_while_threads_take_turns() {
        let lanes = Lanes::default();
        let (mut one, mut two) = (lanes.lane(), lanes.lane());
        lanes.add(&mut one, false, [10, 10, 1]);
        lanes.add(&mut two, true, [10, 10, 1]);
        lanes.sub(&mut two, true, [10, 10, 1]);
        lanes.sub(&mut one, false, [10, 10, 1]);
        lanes.add(&mut two, true, [15, 15, 1]);
        assert_eq!(
            lanes.count(What::Allocated),
            Count { current: 15, peak: 20, allocated: 35, freed: 20 }
        );
        let small = lanes.small();
        assert_eq!((small.allocated_bytes.current, small.allocated_bytes.peak), (15, 15));
        assert_eq!((small.allocated_bytes.freed, small.large_peaks), (10, [10, 10, 1]));
        lanes.reset_peaks();
        assert_eq!(lanes.count(What::Allocated).peak, 15);
        assert_eq!(lanes.small().large_peaks, [0, 0, 0]);
    }

    #[test]
    fn what_ended_threads_counted_stays() {
        let lanes = Lanes::default();
        for _ in 0..100 {
            lanes.add(&mut lanes.lane(), false, [2, 1, 1]);
        }
        let _last = lanes.lane();
        assert_eq!(lanes.count(What::Blocks).current, 100);
        assert_eq!(lanes.count(What::Allocated).peak, 200);
        assert!(lanes.books.lock().unwrap().len() <= 3);
    }
}
