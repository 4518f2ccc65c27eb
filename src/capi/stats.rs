//! The numbers of a device, as C sees them.

use std::sync::atomic::Ordering::Relaxed;

use super::devices::Device;
use super::{marks, memory};
use crate::pool::engine::{BlockState, BlockView, Count};

/// A number, its peak, and what was ever added to it and taken away.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct cenote_count {
    /// Now.
    pub current: u64,
    /// The largest so far, or since `cenote_reset_peaks`.
    pub peak: u64,
    /// Ever added.
    pub allocated: u64,
    /// Ever taken away.
    pub freed: u64,
}

/// The numbers of a device. Later versions add fields at the end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct cenote_stats {
    /// Set by the caller: `sizeof(struct cenote_stats)`. No more than that is written; on return it is what was written.
    pub size: usize,
    /// Bytes of blocks in the program's hands; each is a multiple of 512.
    pub allocated_bytes: cenote_count,
    /// Of them, what was asked for.
    pub requested_bytes: cenote_count,
    /// Blocks in the program's hands.
    pub blocks: cenote_count,
    /// Bytes taken from the driver.
    pub reserved_bytes: cenote_count,
    /// Bytes that may be taken from the driver, the card's at most; the largest number where there is no limit.
    pub limit_bytes: u64,
    /// Pieces of physical memory that were created.
    pub pages_created: u64,
    /// Pieces that were moved to another address.
    pub pages_moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Requests that no free block held.
    pub misses: u64,
    /// Requests that were refused at first, and tried again after something was given back.
    pub retries: u64,
    /// Requests that the engine refused; the callback of `cenote_on_oom` may have saved some.
    pub ooms: u64,
    /// Frees that named another size than the allocation.
    pub size_mismatches: u64,
    /// Frees, on all devices, of pointers that were no live block.
    pub invalid_frees: u64,
    /// Calls of `cenote_mark`.
    pub marks: u64,
    /// Pieces of physical memory that are held.
    pub pages: cenote_count,
    /// Of `allocated_bytes`, those of blocks below 64 KiB, which lie apart from the others.
    pub small_allocated_bytes: cenote_count,
    /// Of `requested_bytes`, likewise.
    pub small_requested_bytes: cenote_count,
    /// Of `blocks`, likewise.
    pub small_blocks: cenote_count,
    /// Peak of the bytes of blocks of 64 KiB and more.
    pub large_allocated_peak: u64,
    /// Peak of what was asked for of them.
    pub large_requested_peak: u64,
    /// Peak of their number.
    pub large_blocks_peak: u64,
}

/// How the memory of a device that is held is used at the moment. Later versions add fields at the end.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct cenote_usage {
    /// Set by the caller, as in `cenote_stats`.
    pub size: usize,
    /// Bytes freed, while other streams still use them.
    pub pending_bytes: u64,
    /// Blocks of that.
    pub pending_blocks: u64,
    /// Bytes free, in pages in which something lives: they can't go back to the driver.
    pub inactive_split_bytes: u64,
    /// Free blocks with such bytes.
    pub inactive_split_blocks: u64,
    /// Bytes held for blocks below 64 KiB.
    pub small_reserved_bytes: u64,
    /// Pages of that.
    pub small_pages: u64,
    /// Of `inactive_split_bytes`, those among blocks below 64 KiB.
    pub small_inactive_split_bytes: u64,
    /// Of `inactive_split_blocks`, likewise.
    pub small_inactive_split_blocks: u64,
    /// The largest free block.
    pub largest_free_bytes: u64,
    /// Bytes of the device.
    pub device_total_bytes: u64,
    /// Of them, what the driver has left.
    pub device_free_bytes: u64,
}

/// What is in nobody's hands.
pub const CENOTE_BLOCK_FREE: u32 = 0;
/// What is in the program's.
pub const CENOTE_BLOCK_LIVE: u32 = 1;
/// What was freed, while other streams still use it.
pub const CENOTE_BLOCK_PENDING: u32 = 2;

/// A block with memory.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in the header")]
pub struct cenote_block {
    /// Where it begins.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// What was asked for; 0 of a free one.
    pub requested_bytes: u64,
    /// The stream that orders it.
    pub stream: u64,
    /// The pool that it belongs to; 0 for none.
    pub pool: u64,
    /// One of `CENOTE_BLOCK_FREE`, `CENOTE_BLOCK_LIVE`, `CENOTE_BLOCK_PENDING`.
    pub state: u32,
    /// 1 if it lies among the blocks below 64 KiB.
    pub is_small: u32,
}

impl From<BlockView> for cenote_block {
    fn from(view: BlockView) -> Self {
        let state = match view.state {
            BlockState::Free => CENOTE_BLOCK_FREE,
            BlockState::Live => CENOTE_BLOCK_LIVE,
            BlockState::Pending => CENOTE_BLOCK_PENDING,
        };
        let BlockView { address, bytes, requested, stream, pool, is_small, .. } = view;
        let (stream, is_small) = (stream as u64, u32::from(is_small));
        cenote_block { address, bytes, requested_bytes: requested, stream, pool, state, is_small }
    }
}

impl cenote_usage {
    /// The use of a device that memory was asked of.
    pub(super) fn of(device: &Device) -> Self {
        let usage = device.engine.usage();
        cenote_usage {
            size: size_of::<cenote_usage>(),
            pending_bytes: usage.pending_bytes,
            pending_blocks: usage.pending,
            inactive_split_bytes: usage.split_bytes,
            inactive_split_blocks: usage.splits,
            small_reserved_bytes: usage.small_reserved_bytes,
            small_pages: usage.small_handles,
            small_inactive_split_bytes: usage.small_split_bytes,
            small_inactive_split_blocks: usage.small_splits,
            largest_free_bytes: usage.largest_free_bytes,
            device_total_bytes: device.total,
            device_free_bytes: device.engine.card().free_bytes(),
        }
    }
}

impl From<Count> for cenote_count {
    fn from(Count { current, peak, allocated, freed }: Count) -> Self {
        cenote_count { current, peak, allocated, freed }
    }
}

impl cenote_stats {
    /// The numbers of a device that memory was asked of, or of none.
    pub(super) fn of(device: Option<&Device>) -> Self {
        let process = cenote_stats {
            size: size_of::<cenote_stats>(),
            limit_bytes: u64::MAX,
            invalid_frees: memory::INVALID_FREES.load(Relaxed),
            marks: marks::count(),
            ..cenote_stats::default()
        };
        let Some(device) = device else { return process };
        let stats = device.engine.stats();
        let [large_allocated_peak, large_requested_peak, large_blocks_peak] =
            stats.small.large_peaks;
        cenote_stats {
            allocated_bytes: stats.allocated_bytes.into(),
            requested_bytes: stats.requested_bytes.into(),
            blocks: stats.allocation.into(),
            reserved_bytes: stats.reserved_bytes.into(),
            limit_bytes: match device.engine.limit() {
                u64::MAX => u64::MAX,
                limit => limit.min(device.total),
            },
            pages_created: stats.pages_created,
            pages_moved: stats.pages_moved,
            moved_bytes: stats.moved_bytes,
            misses: stats.misses,
            retries: stats.alloc_retries,
            ooms: stats.ooms,
            size_mismatches: device.size_mismatches.load(Relaxed),
            pages: stats.handles.into(),
            small_allocated_bytes: stats.small.allocated_bytes.into(),
            small_requested_bytes: stats.small.requested_bytes.into(),
            small_blocks: stats.small.allocation.into(),
            large_allocated_peak,
            large_requested_peak,
            large_blocks_peak,
            ..process
        }
    }
}
