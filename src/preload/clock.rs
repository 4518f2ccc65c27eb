//! Time, cheaply.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A clock of the system, in nanoseconds.
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call, which the vDSO answers.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Unix time in nanoseconds.
pub(super) fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Monotonic nanoseconds, the same on every processor.
pub(super) fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Monotonic milliseconds, exact to a few: 5 ns a call.
pub(super) fn now_ms() -> u64 {
    read(libc::CLOCK_MONOTONIC_COARSE) / 1_000_000
}

/// Lets one caller through in each interval.
#[derive(Debug, Default)]
pub(super) struct Every(AtomicU64);

impl Every {
    /// Nobody was let through yet.
    pub(super) const fn new() -> Self {
        Every(AtomicU64::new(0))
    }

    /// Whether `interval_ms` have passed since the last time that the answer was yes.
    pub(super) fn passed(&self, interval_ms: u64) -> bool {
        let (now, last) = (now_ms(), self.0.load(Relaxed));
        (last == 0 || now.saturating_sub(last) >= interval_ms)
            && self.0.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
    }
}
