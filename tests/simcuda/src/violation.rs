//! The record of wrong use: each violation is printed, appended to a file, and counted.
//!
//! It stands outside the simulated device and its lock, since calls after shutdown and calls in a
//! forked child, where that lock may be lost, are violations too.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::log;
use crate::settings::settings;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Records a violation, in the words of [`format!`].
macro_rules! violation {
    ($($text:tt)*) => { $crate::violation::report(format_args!($($text)*)) };
}
pub(crate) use violation;

/// How many there were in this process.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Records one; called through [`violation!`].
pub(crate) fn report(what: Arguments<'_>) {
    COUNT.fetch_add(1, Ordering::Relaxed);
    let line = format!("simcuda: violation: {what}\n");
    log::write_all(libc::STDERR_FILENO, line.as_bytes());
    if let Some(path) = &settings().violations {
        log::append(path, line.as_bytes());
    }
    #[cfg(test)]
    in_this_thread::TALLY.set(in_this_thread::TALLY.get() + 1);
}

/// Tests run in parallel, each with a simulated device of its own: they count by thread.
#[cfg(test)]
pub(crate) mod in_this_thread {
    use std::cell::Cell;

    thread_local!(pub(super) static TALLY: Cell<u64> = const { Cell::new(0) });

    /// Violations of this thread since the last call.
    pub(crate) fn take() -> u64 {
        TALLY.replace(0)
    }
}
