//! One helper thread: it gives idle memory back, asks the driver for the numbers, and writes reports on request.
//!
//! # When memory goes back
//! Two wishes collide. A program that frees 20 GiB and calls nothing more wants other processes to have them soon; a loop of
//! cudaMalloc and cudaFree wants to hit from its second round on. And `cuMemFree` waits for running kernels and stalls every
//! thread's launches meanwhile, so it must not come at a bad moment. So:
//!
//! - a cached segment that nobody asked for during `idle_release` (0.5 s) is *due*;
//! - due segments go back at the first moment at which the context has no work in flight: this thread looks every 50 ms, and the
//!   hooks on the synchronising calls look, since right after a synchronise the device tends to be idle;
//! - after 0.8 times as long again they go back in any case, at the price that the driver takes for any free.
//!
//! A loop that frees and allocates keeps its segments young; a burst of frees is back with the driver within a second.
//!
//! # Locks
//! The thread holds a context's maintenance lock while it works on it, so that the context can't end meanwhile, and one of its
//! own, so that exit can wait until it is out of the driver.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use super::contexts::Context;
use super::process::{self, Phase, Process};
use super::{clock, driver, dump};
use crate::report::Reason;

const TICK: Duration = Duration::from_millis(50);
const SAMPLE_MS: u64 = 1000;

/// Held while the thread is at work; taken for good when exit begins.
static AT_WORK: Mutex<()> = Mutex::new(());

/// Starts the thread. Without one, the hooks alone do the work when they are called.
pub(super) fn start(process: &'static Process) {
    let builder = std::thread::Builder::new().name("cenote".to_owned()).stack_size(256 << 10);
    let started = with_signals_blocked(|| builder.spawn(move || run(process)));
    if started.is_err() {
        process.events.note("no_helper_thread", || {
            "no helper thread could be started: idle memory goes back only when the program calls CUDA".to_owned()
        });
    }
}

/// Waits until the thread is out of the driver, for a bounded time, and keeps it from going there again.
pub(super) fn stop() {
    for _ in 0..1000 {
        match AT_WORK.try_lock() {
            Ok(guard) => return std::mem::forget(guard),
            Err(TryLockError::Poisoned(_)) => return,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// The job's signals are for the job's threads: a new thread inherits the mask.
fn with_signals_blocked<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero set is valid to be filled.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid for the calls.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let result = call();
    // SAFETY: `before` was filled above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    result
}

fn run(process: &'static Process) {
    let mut due = Due { sample_ms: 0, report_ms: clock::now_ms() };
    loop {
        std::thread::sleep(TICK);
        let Ok(_at_work) = AT_WORK.try_lock() else { return };
        if process::phase() != Phase::Awake || is_last_thread() {
            return;
        }
        // A fault here must not end the job, nor the keeping.
        let _ = catch_unwind(AssertUnwindSafe(|| tick(process, &mut due)));
    }
}

/// Whether the main thread has left by `pthread_exit` and no thread of the program runs any more: then the process ends when
/// this thread does.
fn is_last_thread() -> bool {
    // "pid (name) state ...": the name may hold anything, so the state is looked for behind the last bracket.
    let status = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let main_is_gone =
        status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
    let threads = || std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count);
    main_is_gone && threads() <= 2
}

/// When something was last done.
struct Due {
    sample_ms: u64,
    report_ms: u64,
}

fn tick(process: &'static Process, due: &mut Due) {
    let now = clock::now_ms();
    let sample = now.saturating_sub(due.sample_ms) >= SAMPLE_MS;
    if sample {
        due.sample_ms = now;
    }
    for context in process.contexts.living() {
        keep(process, context, sample);
    }
    process.page.page.updated_unix_ns.store(clock::unix_ns(), Relaxed);
    let every = process.settings.report_every.map(|every| every.as_millis() as u64);
    if dump::requested(process) {
        dump::write(process, Reason::Request);
    } else if every.is_some_and(|every| now.saturating_sub(due.report_ms) >= every) {
        due.report_ms = now;
        dump::write(process, Reason::Interval);
    }
}

fn keep(process: &'static Process, context: &'static Context, sample_due: bool) {
    let Ok(_maintenance) = context.maintenance.try_lock() else { return };
    if !context.is_alive() {
        return;
    }
    let _ = driver::within(context.handle, || context.pool.settle());
    let release_due = process.is_due(context, 0);
    if !release_due && !sample_due {
        return;
    }
    let _ = driver::within(context.handle, || {
        if release_due {
            process.release(context);
        }
        if sample_due {
            process.sample(context.device);
        }
    });
}

impl Process {
    /// Gives idle memory back if it is due and the device is idle; for moments at which it tends to be.
    pub(super) fn release_if_due(&'static self, context: &'static Context) {
        if self.is_due(context, 0)
            && let Ok(_maintenance) = context.maintenance.try_lock()
        {
            self.release(context);
        }
    }

    /// Whether some segment has been idle for long enough, and `more_ms` beyond.
    fn is_due(&self, context: &Context, more_ms: u64) -> bool {
        self.pools() && context.pool.has_idle(self.idle_ms() + more_ms, self.settings.retain)
    }

    fn idle_ms(&self) -> u64 {
        self.settings.idle_release.as_millis() as u64
    }

    fn release(&self, context: &Context) {
        let idle_ms = self.idle_ms();
        let patience = idle_ms * 4 / 5;
        let age = match context.pool.is_device_idle() {
            true => idle_ms,
            false if self.is_due(context, patience) => idle_ms + patience,
            false => return,
        };
        if context.pool.release_idle(age, self.settings.retain) > 0 {
            self.books.device(context.device).pool.idle_releases.fetch_add(1, Relaxed);
            self.sample(context.device);
        }
    }
}
