//! Simulated time, in nanoseconds.
//!
//! The *virtual* clock moves only when told: by `simcuda_advance`, by waits, and by a little with
//! each driver call. The *real* clock is the machine's; waits on it sleep (see `state.rs`, which
//! gives up its lock meanwhile).

use std::time::Instant;

/// What a driver call costs on the virtual clock.
pub(crate) const CALL_NS: u64 = 100;

/// A point in simulated time.
pub(crate) type Time = u64;

/// One of the two clocks.
#[derive(Debug)]
pub(crate) enum Clock {
    Virtual { now: Time },
    Real { origin: Instant },
}

impl Clock {
    pub(crate) fn new(real: bool) -> Clock {
        if real { Clock::Real { origin: Instant::now() } } else { Clock::Virtual { now: 0 } }
    }

    pub(crate) fn now(&self) -> Time {
        match self {
            Clock::Virtual { now } => *now,
            Clock::Real { origin } => origin.elapsed().as_nanos() as Time,
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self, Clock::Real { .. })
    }

    /// Moves the virtual clock on; the real one moves by itself.
    pub(crate) fn advance(&mut self, by: Time) {
        if let Clock::Virtual { now } = self {
            *now += by;
        }
    }

    /// Moves the virtual clock on to a time, never back.
    pub(crate) fn advance_to(&mut self, time: Time) {
        if let Clock::Virtual { now } = self {
            *now = time.max(*now);
        }
    }
}

/// Sleeps on the machine's clock.
pub(crate) fn sleep(time: Time) {
    let span = libc::timespec {
        tv_sec: (time / 1_000_000_000) as i64,
        tv_nsec: (time % 1_000_000_000) as i64,
    };
    // SAFETY: `span` is valid for the call; the remaining time is not wanted. A signal ends the
    // sleep early, and callers look at the clock again.
    unsafe { libc::nanosleep(&span, std::ptr::null_mut()) };
}
