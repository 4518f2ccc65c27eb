//! Which heaps a stream has, and which heap an address belongs to. Both are read without a lock.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::blocks::UNIT;
use super::heap::Heap;
use super::span::Span;
use crate::cuda::{Card, CuResult, StreamHandle};

/// A stream has two heaps: for blocks below this size, and for the others. A small block among large ones would keep a whole page
/// from moving.
const SMALL: u64 = 64 << 10;

/// Heaps that a device may have.
const MOST: usize = 1024;
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

/// A heap, its lock, and what it is for.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) stream: StreamHandle,
    /// The private pool that it belongs to; 0 for none.
    pub(super) pool: u64,
    heap: Mutex<Heap>,
}

impl Home {
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

#[derive(Debug)]
pub(super) struct Streams {
    /// By hash: 0, or the number of a heap and 1.
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

    /// The heap of a key, if there is one.
    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<&Home> {
        let hash = key.hash();
        for step in 0..self.places.len() {
            let place = (hash as usize).wrapping_add(step) % self.places.len();
            let home = self.at(self.places[place].load(Acquire))?;
            let is_it = self.hashes[place].load(Relaxed) == hash
                && home.stream == key.stream
                && home.pool == key.pool;
            if is_it {
                return Some(home);
            }
        }
        None
    }

    /// The heap of a key, made if there is none.
    ///
    /// # Errors
    /// What the driver says when it is asked for addresses.
    pub(super) fn find_or_make(
        &self,
        key: Key,
        card: &impl Card,
        total: u64,
    ) -> Result<&Home, CuResult> {
        if let Some(home) = self.find(key) {
            return Ok(home);
        }
        let _making = self.making.lock();
        if let Some(home) = self.find(key) {
            return Ok(home);
        }
        let number = self.count.load(Relaxed) + 1;
        let Some(slot) = self.homes.get(number as usize - 1) else {
            return Err(CuResult::OUT_OF_MEMORY);
        };
        let times = if number < ROOMY { 4 } else { 1 };
        let bytes =
            if key.small { SMALL_SPAN } else { (total * times).next_multiple_of(1 << PIECE_BITS) };
        let base = card.reserve(bytes, 1 << PIECE_BITS)?;
        let shift = if key.small { UNIT } else { SMALL }.ilog2();
        let heap = Mutex::new(Heap::new(Span::new(base, bytes, shift)));
        let _ = slot.set(Home { stream: key.stream, pool: key.pool, heap });
        for piece in (base >> PIECE_BITS)..(base + bytes) >> PIECE_BITS {
            if let Some(owner) = self.owners.get(piece as usize) {
                owner.store(number, Release);
            }
        }
        self.count.store(number, Release);
        let hash = key.hash();
        let free = (0..self.places.len())
            .map(|step| (hash as usize).wrapping_add(step) % self.places.len());
        if let Some(place) = free.into_iter().find(|&place| self.places[place].load(Relaxed) == 0) {
            self.hashes[place].store(hash, Relaxed);
            self.places[place].store(number, Release);
        }
        slot.get().ok_or(CuResult::OUT_OF_MEMORY)
    }
}
