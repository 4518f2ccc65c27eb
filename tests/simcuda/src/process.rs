//! The driver's life in a process: initialised, shut down, or inherited by a fork.
//!
//! The driver ends in an `atexit` handler that `cuInit` registers: handlers that the program
//! registers later still find it alive, ELF destructors and handlers of constructors do not
//! (`facts/interposition.md` 2.6). Its own ELF destructor ends it too, for processes that never
//! called `cuInit`, and writes the call counts.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::api;
use crate::code::{Code, Outcome};
use crate::settings::settings;
use crate::violation::violation;

/// The process that called `cuInit`; 0 before.
static OWNER: AtomicU32 = AtomicU32::new(0);
static GONE: AtomicBool = AtomicBool::new(false);

/// Says that this process has initialised the driver.
pub(crate) fn initialise() {
    if OWNER.swap(std::process::id(), Ordering::SeqCst) == 0 {
        // SAFETY: the handler takes no arguments, and `-z nodelete` keeps its code in memory.
        unsafe { libc::atexit(shut_down) };
    }
}

/// From now on every call fails.
pub(crate) extern "C" fn shut_down() {
    GONE.store(true, Ordering::SeqCst);
}

/// Whether this process is a fork of one that had initialised the driver.
pub(crate) fn is_forked() -> bool {
    let owner = OWNER.load(Ordering::SeqCst);
    owner != 0 && owner != std::process::id()
}

/// Fails for a driver that cannot be called.
pub(crate) fn check(call: &str, needs_init: bool) -> Outcome {
    if is_forked() {
        if settings().strict_fork {
            violation!("{call} in a forked child of a process that had called cuInit");
        }
        return Err(Code::NOT_INITIALIZED);
    }
    if GONE.load(Ordering::SeqCst) {
        if settings().strict_exit {
            violation!("{call} after the driver has shut down");
        }
        return Err(Code::DEINITIALIZED);
    }
    if needs_init && OWNER.load(Ordering::SeqCst) == 0 {
        return Err(Code::NOT_INITIALIZED);
    }
    Ok(())
}

extern "C" fn end_of_library() {
    shut_down();
    if let Some(path) = &settings().calls_at_exit
        && !is_forked()
    {
        let called = api::entries().filter(|entry| entry.calls() > 0);
        let lines: String =
            called.map(|entry| format!("{} {}\n", entry.name, entry.calls())).collect();
        let _ = std::fs::write(path, lines);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END_OF_LIBRARY: extern "C" fn() = end_of_library;
