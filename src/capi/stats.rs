//! The numbers of a device, as C sees them.

use std::sync::atomic::Ordering::Relaxed;

use super::devices::Device;
use super::{marks, memory};
use crate::pool::engine::Count;

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
            ..process
        }
    }
}
