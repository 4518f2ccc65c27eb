//! Fork, exit, and the other ways out of a process.
//!
//! - `exit`: an `atexit` handler, registered by the first hooked call, runs before the driver's own teardown and stops all calls
//!   of ours to the driver. The report is written by a destructor of this library, after every static destructor of the program:
//!   so it knows what those freed.
//! - `_exit`, `_Exit`, `abort`: hooked, since they run neither. The helper thread writes the report.
//! - SIGKILL, a crash, exec, `quick_exit`: the mapped page stays behind for `cenote recover`.
//! - fork: in the child of a process that used CUDA the driver is dead, and so are we.

use std::ffi::c_int;
#[cfg(feature = "doors")]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[cfg(feature = "doors")]
use super::dump;
use super::process::{self, Phase, Process};
use super::trace;
use crate::cuda::loader;
use crate::report::Reason;

/// Registers the handlers. Called once in the life of a process image.
pub(super) fn register() {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Relaxed) {
        return;
    }
    // SAFETY: both handlers are functions of this library, which is never unloaded: it was preloaded.
    unsafe {
        libc::atexit(exit_begins);
        libc::pthread_atfork(None, None, Some(forked));
    }
}

extern "C" fn exit_begins() {
    if process::phase() == Phase::Awake {
        process::set_phase(Phase::Exiting);
        if let Some(process) = process::current() {
            process.keeper.leave_driver();
        }
        trace::finish();
    }
}

/// In the child of a fork. Other threads may have held any lock of ours: none is taken from here on.
extern "C" fn forked() {
    trace::forked();
    let Some(process) = process::current() else { return };
    // The driver can't be used after a fork once it was; before the first context it can.
    let used = process.books.devices.iter().any(|book| book.used.load(Relaxed) == 1);
    if used {
        process::set_phase(Phase::Child);
    } else {
        process::start_over();
    }
}

/// Runs when the process image ends by `exit` or by returning from `main`, after the destructors of the program and of all
/// libraries that were loaded later.
#[cfg(feature = "doors")]
extern "C" fn finish() {
    if let Some(process) = ending() {
        process::set_phase(Phase::Exiting);
        let variables = super::environment::Variables::now();
        let _ =
            catch_unwind(AssertUnwindSafe(|| dump::write_last(process, Reason::Exit, &variables)));
    }
}

#[cfg(feature = "doors")]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;

/// The process, if it is this one that ends: a child of vfork shares our memory, and a child of a raw clone ran no handler.
fn ending() -> Option<&'static Process> {
    let is_ours = |process: &&Process| process.pid == std::process::id();
    let lives = matches!(process::phase(), Phase::Awake | Phase::Exiting);
    process::current().filter(|_| lives).filter(is_ours)
}

/// Has the last report written for a process that ends at once. The helper thread writes it, since this may be a signal handler
/// that came in the middle of malloc or of one of our own locks. Without that thread the page stays, for `cenote recover`.
fn report_now(reason: Reason) {
    if let Some(process) = ending() {
        process::set_phase(Phase::Exiting);
        trace::finish();
        process.keeper.write_last(reason);
    }
}

/// `_exit`: writes the report first.
///
/// # Safety
/// As `_exit(2)`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    immediate_exit(status)
}

/// `_Exit`: the same.
///
/// # Safety
/// As `_Exit(3)`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
#[allow(non_snake_case, reason = "the C library's name")]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    immediate_exit(status)
}

fn immediate_exit(status: c_int) -> ! {
    report_now(Reason::ImmediateExit);
    loop {
        // SAFETY: ends the process, as asked.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// `abort`, which an uncaught exception ends in: writes the report first.
///
/// # Safety
/// As `abort(3)`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn abort() -> ! {
    report_now(Reason::Abort);
    if let Some(abort) = loader::lookup(libc::RTLD_NEXT as usize, c"abort") {
        // SAFETY: this is the C library's function of that type.
        let abort: extern "C" fn() -> ! = unsafe { std::mem::transmute(abort) };
        abort();
    }
    loop {
        // SAFETY: ends the process by the signal that was asked for, should the C library's function be missing.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}
