//! The counters of a device's pools, as they lie in the mapped page of the process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number and the largest value that it ever had.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Ratchet {
    value: AtomicU64,
    peak: AtomicU64,
}

impl Ratchet {
    /// Adds `n`.
    pub fn add(&self, n: u64) {
        let value = self.value.fetch_add(n, Relaxed) + n;
        if value > self.peak.load(Relaxed) {
            self.peak.fetch_max(value, Relaxed);
        }
    }

    /// Takes `n` away; stops at 0, since a wrapped number would be the worst answer.
    pub fn sub(&self, n: u64) {
        let update = |value: u64| Some(value.saturating_sub(n));
        let _ = self.value.fetch_update(Relaxed, Relaxed, update);
    }

    /// Sets the number.
    pub fn set(&self, n: u64) {
        self.value.store(n, Relaxed);
        self.peak.fetch_max(n, Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// The largest value so far.
    pub fn peak(&self) -> u64 {
        self.peak.load(Relaxed)
    }
}

/// Counters of the pools of one device; the names are those of the report.
#[derive(Debug, Default)]
#[repr(C)]
#[allow(missing_docs, reason = "documented at `report::Pool`, field by field")]
pub struct PoolBook {
    pub reserved: Ratchet,
    pub live: Ratchet,
    pub live_blocks: AtomicU64,
    pub cached: Ratchet,
    pub waiting: Ratchet,
    pub internal: Ratchet,
    /// 0 where there is none.
    pub limit_bytes: AtomicU64,
    pub allocations: AtomicU64,
    pub frees: AtomicU64,
    pub hits: AtomicU64,
    pub driver_allocations: AtomicU64,
    pub driver_frees: AtomicU64,
    pub events_recorded: AtomicU64,
    pub waits: AtomicU64,
    pub idle_releases: AtomicU64,
    pub garbage_collections: AtomicU64,
    pub flushes: AtomicU64,
    pub out_of_memory: AtomicU64,
    pub exported_blocks: AtomicU64,
}
