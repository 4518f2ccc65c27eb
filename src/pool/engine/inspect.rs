//! What lies where at the moment: for snapshots and statistics, off the hit path.

use super::blocks::{Block, State, UNIT};
use super::device::{Engine, NotLive};
use super::heap::Heap;
use super::lanes::Lane;
use super::streams::is_small;
use crate::cuda::{Card, DevicePtr, StreamHandle};

/// In whose hands a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    /// In the program's.
    Live,
    /// Freed, while other streams still use it.
    Pending,
    /// In nobody's.
    Free,
}

/// A block with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockView {
    /// Where it begins.
    pub address: DevicePtr,
    /// Its bytes.
    pub bytes: u64,
    /// What the program asked for; 0 of a free one.
    pub requested: u64,
    /// The stream that orders it.
    pub stream: StreamHandle,
    /// The private pool that it belongs to; 0 for none.
    pub pool: u64,
    /// Whether it lies among the blocks below 64 KiB.
    pub is_small: bool,
    /// In whose hands it is.
    pub state: BlockState,
}

/// How the memory that is held is used. Bytes, except where another unit is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Freed, while other streams still use it.
    pub pending_bytes: u64,
    /// Blocks of that.
    pub pending: u64,
    /// Free, and part of handles in which something lives: can't go back to the driver.
    pub split_bytes: u64,
    /// Free blocks with such bytes.
    pub splits: u64,
    /// Held for blocks below 64 KiB.
    pub small_reserved_bytes: u64,
    /// Handles of that.
    pub small_handles: u64,
    /// Of `split_bytes`, those among blocks below 64 KiB.
    pub small_split_bytes: u64,
    /// Of `splits`, likewise.
    pub small_splits: u64,
    /// The largest free block.
    pub largest_free_bytes: u64,
}

impl<C: Card> Engine<C> {
    /// Bytes of the live block that begins at an address, and what was asked for.
    ///
    /// # Errors
    /// If there is none.
    pub fn size_of(&self, address: DevicePtr) -> Result<(u64, u64), NotLive> {
        let home = self.streams.owner(address).ok_or(NotLive)?;
        let heap = home.lock();
        let block = &heap.blocks[heap.live(address).ok_or(NotLive)?];
        Ok((block.bytes, block.requested))
    }

    /// All blocks that have memory, by address within each heap; heap after heap, each as it is when its turn comes.
    pub fn blocks(&self) -> Vec<BlockView> {
        let mut views = Vec::new();
        for home in self.streams.all() {
            let mut heap = home.lock();
            heap.settle();
            let seen = heap.in_order().filter_map(|block| {
                let state = match block.state {
                    State::Live => BlockState::Live,
                    State::Pending => BlockState::Pending,
                    State::Free | State::Whole => BlockState::Free,
                    State::Hole | State::Moved | State::Tied => return None,
                };
                let requested = if state == BlockState::Free { 0 } else { block.requested };
                let Block { address, bytes, .. } = *block;
                let (stream, pool, is_small) = (home.stream(), home.pool(), home.is_small());
                Some(BlockView { address, bytes, requested, stream, pool, is_small, state })
            });
            views.extend(seen);
        }
        views
    }

    /// Makes live again what was live at an address of a private pool, whose memory stays where it is: for a state of the pool that
    /// is gone back to. `bytes` and `requested` are as they were.
    ///
    /// # Errors
    /// If it is not free there, or belongs to another pool.
    pub fn allocate_at(
        &self,
        lane: &mut Lane,
        address: DevicePtr,
        (bytes, requested): (u64, u64),
        pool: u64,
    ) -> Result<(), NotLive> {
        let home = self.streams.owner(address).ok_or(NotLive)?;
        let fits = bytes >= requested.max(1) && bytes.is_multiple_of(UNIT);
        if !fits || pool == 0 || home.pool() != pool || home.is_small() != is_small(bytes) {
            return Err(NotLive);
        }
        let mut heap = home.lock();
        heap.settle();
        heap.loosen_all();
        let end = address.checked_add(bytes).ok_or(NotLive)?;
        let id = heap.free_around(address, end).ok_or(NotLive)?;
        heap.take_at(id, address, bytes, requested);
        drop(heap);
        self.lanes.add(lane, home.is_small(), [bytes, requested, 1]);
        Ok(())
    }

    /// How the memory that is held is used.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for home in self.streams.all() {
            let mut heap = home.lock();
            heap.settle();
            heap.add_to(&mut usage, home.is_small());
        }
        usage
    }
}

impl Heap {
    fn add_to(&self, usage: &mut Usage, is_small: bool) {
        usage.pending += self.pending.len() as u64;
        usage.pending_bytes +=
            self.pending.iter().map(|pending| self.blocks[pending.id].bytes).sum::<u64>();
        let (mut bytes, mut count) = (0, 0);
        for id in self.free.at_least(&self.blocks, 1).chain(self.whole.at_least(0)) {
            let block = &self.blocks[id];
            let trapped = self.span.trapped(block.address, block.end());
            bytes += trapped;
            count += u64::from(trapped > 0);
            usage.largest_free_bytes = usage.largest_free_bytes.max(block.bytes);
        }
        usage.split_bytes += bytes;
        usage.splits += count;
        if is_small {
            usage.small_split_bytes += bytes;
            usage.small_splits += count;
            usage.small_reserved_bytes += self.span.mapped;
            usage.small_handles += self.span.count();
        }
    }
}
