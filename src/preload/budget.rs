//! The limit on what a process holds on a device, whichever call the memory comes from.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes taken on one device, and how many may be.
#[derive(Debug)]
pub(super) struct Budget {
    taken: AtomicU64,
    limit: AtomicU64,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Budget { taken: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) }
    }

    /// Sets the limit.
    pub(super) fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.unwrap_or(u64::MAX), Relaxed);
    }

    /// The limit, if there is one.
    pub(super) fn limit(&self) -> Option<u64> {
        Some(self.limit.load(Relaxed)).filter(|&limit| limit != u64::MAX)
    }

    /// Takes `bytes`, unless that would go beyond the limit.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Relaxed);
        let more = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= limit);
        self.taken.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Takes `bytes` that are held already, whatever the limit.
    pub(super) fn force(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Relaxed);
    }

    /// Gives them back.
    pub(super) fn put_back(&self, bytes: u64) {
        let less = |taken: u64| Some(taken.saturating_sub(bytes));
        let _ = self.taken.fetch_update(Relaxed, Relaxed, less);
    }

    /// Bytes taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_of_thirty_two_mebibytes_fit_under_512() {
        let budget = Budget::new();
        budget.set_limit(Some(512 << 20));
        assert_eq!((0..20).filter(|_| budget.take(32 << 20)).count(), 16);
        assert!(!budget.take(u64::MAX), "no wrap");
        budget.put_back(u64::MAX);
        assert_eq!(budget.taken(), 0);
    }
}
