//! Which heaps a stream has, and which heap an address belongs to. Both are read without a lock.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{OnceLock, PoisonError};

use super::blocks::UNIT;
use super::heap::Heap;
use super::rules::Rules;
use super::span::Span;
use super::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard};
use crate::cuda::{Card, CuResult, StreamHandle};

/// A stream has two heaps: for blocks below this size, and for the others. A small block among large ones would keep a whole page
/// from moving.
pub(super) const SMALL: u64 = 64 << 10;

/// Heaps that a device may have; a checker of orders soon needs them anew.
const MOST: usize = if cfg!(cenote_shuttle) { 12 } else { 1024 };
/// Addresses are shared out in pieces of 64 GiB, so that one table tells whose they are.
const PIECE_BITS: u32 = 36;
/// A process has 2^47 bytes of addresses.
const PIECES: usize = 1 << (47 - PIECE_BITS);
/// Addresses of a heap of small blocks. The others get four times the card's memory, where there are many heaps once.
const SMALL_SPAN: u64 = 1 << PIECE_BITS;
/// So many heaps are few.
const ROOMY: u32 = 64;

/// Whether a block goes to the heap of small ones.
pub(super) fn is_small(bytes: u64) -> bool {
    bytes < SMALL
}

/// A heap, its lock, and what it is for. A heap whose stream or pool has ended is *retired*: it serves nobody, its memory goes to
/// others, and once it is empty it serves somebody else. Heaps lie side by side and are used by different threads: none shares a cache
/// line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Home {
    stream: AtomicUsize,
    pool: AtomicU64,
    is_retired: AtomicBool,
    is_pinned: AtomicBool,
    small: bool,
    heap: Mutex<Heap>,
}

impl Home {
    /// The stream that orders its blocks.
    #[inline]
    pub(super) fn stream(&self) -> StreamHandle {
        self.stream.load(Relaxed)
    }

    /// The private pool that it belongs to; 0 for none.
    #[inline]
    pub(super) fn pool(&self) -> u64 {
        self.pool.load(Relaxed)
    }

    /// Whether its blocks are small ones.
    pub(super) fn is_small(&self) -> bool {
        self.small
    }

    /// Whether its memory must stay where it is: graphs of its private pool remember the addresses, even if its stream is gone.
    pub(super) fn is_pinned(&self) -> bool {
        self.is_pinned.load(Acquire)
    }

    pub(super) fn unpin(&self) {
        self.is_pinned.store(false, Release);
    }

    /// Whether its stream or its pool has ended.
    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.load(Acquire)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a heap is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) stream: StreamHandle,
    pub(super) pool: u64,
    pub(super) small: bool,
}

impl Key {
    fn hash(self) -> u64 {
        let mixed =
            (self.stream as u64 ^ self.pool.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_left(20) << 1 | u64::from(self.small)
    }
}

/// A place that nobody ever had: a search ends there.
const EMPTY: u32 = 0;
/// A place whose heap was retired.
const LEFT: u32 = u32::MAX;

/// The right to change which heaps there are.
#[derive(Debug)]
pub(super) struct Changes<'a>(#[expect(dead_code, reason = "held")] MutexGuard<'a, ()>);

#[derive(Debug)]
pub(super) struct Streams {
    /// By hash: [`EMPTY`], [`LEFT`], or the number of a heap.
    places: Box<[AtomicU32; MOST * 2]>,
    hashes: Box<[AtomicU64; MOST * 2]>,
    homes: Box<[OnceLock<Home>; MOST]>,
    count: AtomicU32,
    /// By piece of addresses: 0, or the number of a heap and 1.
    owners: Box<[AtomicU32; PIECES]>,
    making: Mutex<()>,
}

impl Streams {
    pub(super) fn new() -> Self {
        Streams {
            places: Box::new([const { AtomicU32::new(0) }; MOST * 2]),
            hashes: Box::new([const { AtomicU64::new(0) }; MOST * 2]),
            homes: Box::new([const { OnceLock::new() }; MOST]),
            count: AtomicU32::new(0),
            owners: Box::new([const { AtomicU32::new(0) }; PIECES]),
            making: Mutex::new(()),
        }
    }

    fn at(&self, number: u32) -> Option<&Home> {
        self.homes.get(number.checked_sub(1)? as usize)?.get()
    }

    /// All heaps, in the order of their making.
    pub(super) fn all(&self) -> impl Iterator<Item = &Home> {
        (1..=self.count.load(Acquire)).filter_map(|number| self.at(number))
    }

    /// The heap that an address belongs to.
    #[inline]
    pub(super) fn owner(&self, address: u64) -> Option<&Home> {
        let owner = self.owners.get((address >> PIECE_BITS) as usize)?;
        self.at(owner.load(Acquire))
    }

    fn walk(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let length = self.places.len();
        (0..length).map(move |step| (hash as usize).wrapping_add(step) % length)
    }

    /// The heap of a key, if there is one.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Home> {
        let hash = key.hash();
        for place in self.walk(hash) {
            let number = self.places[place].load(Acquire);
            if number == EMPTY {
                break;
            }
            if self.hashes[place].load(Relaxed) != hash {
                continue;
            }
            let is_it = |home: &&Home| home.stream() == key.stream && home.pool() == key.pool;
            if let Some(home) = self.at(number).filter(is_it) {
                return Some(home);
            }
        }
        None
    }

    /// Gives a key a heap that has none.
    ///
    /// # Errors
    /// If there is no place left.
    pub(super) fn enter(&self, _: &Changes<'_>, key: Key, number: u32) -> Result<&Home, CuResult> {
        let hash = key.hash();
        let is_free = |&place: &usize| matches!(self.places[place].load(Relaxed), EMPTY | LEFT);
        let place = self.walk(hash).find(is_free).ok_or(CuResult::OUT_OF_MEMORY)?;
        self.hashes[place].store(hash, Relaxed);
        self.places[place].store(number, Release);
        self.at(number).ok_or(CuResult::OUT_OF_MEMORY)
    }

    /// Makes a retired heap serve a key, if nothing lives and nothing works in one any more, once `learn` has seen to it.
    pub(super) fn revive(
        &self,
        _: &Changes<'_>,
        key: Key,
        mut learn: impl FnMut(&Home, &mut Heap),
    ) -> Option<u32> {
        (1..=self.count.load(Relaxed)).find(|&number| {
            let can_be =
                |home: &&Home| home.is_retired() && !home.is_pinned() && home.small == key.small;
            let Some(home) = self.at(number).filter(can_be) else { return false };
            let mut heap = home.lock();
            learn(home, &mut heap);
            heap.settle();
            if !heap.is_unused() {
                return false;
            }
            home.stream.store(key.stream, Relaxed);
            home.pool.store(key.pool, Relaxed);
            home.is_pinned.store(key.pool != 0, Release);
            home.is_retired.store(false, Release);
            heap.is_over = false;
            true
        })
    }

    /// A new heap for a key.
    ///
    /// # Errors
    /// If there are too many, or what the driver says when it is asked for addresses.
    pub(super) fn make(
        &self,
        _: &Changes<'_>,
        key: Key,
        card: &impl Card,
        total: u64,
        rules: &Rules,
    ) -> Result<u32, CuResult> {
        let number = self.count.load(Relaxed) + 1;
        let slot = self.homes.get(number as usize - 1).ok_or(CuResult::OUT_OF_MEMORY)?;
        let times = if number < ROOMY { 4 } else { 1 };
        let bytes = if key.small {
            SMALL_SPAN
        } else {
            total.saturating_mul(times).next_multiple_of(1 << PIECE_BITS)
        };
        let base = card.reserve(bytes, 1 << PIECE_BITS)?;
        let shift = if key.small { UNIT } else { SMALL }.ilog2();
        let _ = slot.set(Home {
            stream: AtomicUsize::new(key.stream),
            pool: AtomicU64::new(key.pool),
            is_retired: AtomicBool::new(false),
            is_pinned: AtomicBool::new(key.pool != 0),
            small: key.small,
            heap: Mutex::new(Heap::new(Span::new(base, bytes, shift), rules)),
        });
        for piece in (base >> PIECE_BITS)..(base + bytes) >> PIECE_BITS {
            if let Some(owner) = self.owners.get(piece as usize) {
                owner.store(number, Release);
            }
        }
        self.count.store(number, Release);
        Ok(number)
    }

    /// Taken before streams and pools begin or end, one at a time.
    pub(super) fn changes(&self) -> Changes<'_> {
        Changes(self.making.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on nobody is given the heap.
    pub(super) fn retire(&self, _: &Changes<'_>, home: &Home) {
        home.is_retired.store(true, Release);
        let is_it = |place: &&AtomicU32| {
            self.at(place.load(Relaxed)).is_some_and(|other| std::ptr::eq(other, home))
        };
        self.places.iter().filter(is_it).for_each(|place| place.store(LEFT, Release));
    }
}
