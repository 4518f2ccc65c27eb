//! The numbers of a process, as they lie in its mapped page.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{Kind, MODULES, ModuleSlot, SiteSlot};
use crate::pool::{PoolBook, Ratchet};

/// Devices that the books have room for; memory of further ones is counted on the last.
pub const MAX_DEVICES: usize = 16;
/// Call sites that the books have room for (a power of two).
pub const SITES: usize = 4096;
/// Frames kept of a call stack, innermost first.
pub const SITE_DEPTH: usize = 24;
/// Number of [`Kind`]s.
pub const KINDS: usize = 6;

/// Bytes and blocks of live memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counter {
    /// Bytes as requested.
    pub bytes: Ratchet,
    /// Number of blocks.
    pub blocks: AtomicU64,
}

impl Counter {
    /// A block came.
    pub fn add(&self, bytes: u64) {
        self.bytes.add(bytes);
        self.blocks.fetch_add(1, Relaxed);
    }

    /// A block went.
    pub fn sub(&self, bytes: u64) {
        self.bytes.sub(bytes);
        let less_one = |n: u64| Some(n.saturating_sub(1));
        let _ = self.blocks.fetch_update(Relaxed, Relaxed, less_one);
    }
}

/// The numbers of one device.
#[derive(Debug, Default)]
#[repr(C)]
pub struct DeviceBook {
    /// 1 once the process has a context there.
    pub used: AtomicU32,
    _pad: AtomicU32,
    /// Total memory.
    pub total_bytes: AtomicU64,
    /// Used when this process' first context was seen.
    pub context_bytes: AtomicU64,
    /// When the driver was last asked, in Unix nanoseconds.
    pub sampled_unix_ns: AtomicU64,
    /// What it said was used.
    pub driver_used: Ratchet,
    /// Tracked by us at that moment.
    pub tracked_at_sample: AtomicU64,
    /// Growth of the used bytes, beyond what is tracked, across calls that load kernels.
    pub modules_bytes: AtomicU64,
    /// The same across calls that make streams.
    pub streams_bytes: AtomicU64,
    /// All device memory in the program's hands.
    pub live: Ratchet,
    /// The same by [`Kind`].
    pub kinds: [Counter; KINDS],
    /// The pools.
    pub pool: PoolBook,
}

impl DeviceBook {
    /// Device memory that this process holds through calls that we saw: what the pool reserved, and the rest as requested.
    pub fn tracked_bytes(&self) -> u64 {
        let direct = [Kind::Direct, Kind::Async, Kind::Vmm, Kind::Managed];
        let others: u64 = direct.iter().map(|&kind| self.kinds[kind as usize].bytes.get()).sum();
        self.pool.reserved.get() + others
    }
}

/// Every number of a process. `repr(C)` and free of pointers: another process reads it from the mapped page.
#[derive(Debug)]
#[repr(C)]
pub struct Books {
    /// By CUDA ordinal.
    pub devices: [DeviceBook; MAX_DEVICES],
    /// Pinned host memory.
    pub host: Counter,
    /// Allocations that found no free site.
    pub site_table_full: AtomicU64,
    /// Libraries in which a frame was seen.
    pub modules: [ModuleSlot; MODULES],
    /// Call sites, an open-addressed table.
    pub sites: [SiteSlot; SITES],
}

impl Books {
    /// The book of a device.
    pub fn device(&self, ordinal: u32) -> &DeviceBook {
        &self.devices[(ordinal as usize).min(MAX_DEVICES - 1)]
    }

    /// A block of `kind` came into the program's hands.
    pub fn add(&self, kind: Kind, device: u32, bytes: u64) {
        if kind == Kind::Host {
            return self.host.add(bytes);
        }
        let book = self.device(device);
        book.kinds[kind as usize].add(bytes);
        book.live.add(bytes);
    }

    /// It left them.
    pub fn sub(&self, kind: Kind, device: u32, bytes: u64) {
        if kind == Kind::Host {
            return self.host.sub(bytes);
        }
        let book = self.device(device);
        book.kinds[kind as usize].sub(bytes);
        book.live.sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_never_wraps() {
        let counter = Counter::default();
        counter.add(5);
        counter.sub(7);
        assert_eq!((counter.bytes.get(), counter.bytes.peak()), (0, 5));
        assert_eq!(counter.blocks.load(Relaxed), 0);
    }
}
