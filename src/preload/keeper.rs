//! One helper thread: it gives idle memory back, asks the driver for the numbers, and writes reports on request.
//!
//! # When memory goes back
//! Two wishes collide. A program that frees 20 GiB and calls nothing more wants other processes to have them soon; a loop of
//! cudaMalloc and cudaFree wants to hit from its second round on. And `cuMemFree` waits for running kernels and stalls every
//! thread's launches meanwhile, so it must not come at a bad moment. So:
//!
//! - a cached segment that nobody asked for during `idle_release` (0.5 s) is *due*;
//! - due segments go back, one at a time, while the context has no work in flight: this thread looks every 50 ms, and the hooks on
//!   the synchronising calls look, since right after a synchronise the device tends to be idle;
//! - without context events (drivers before 12.5) nobody can tell; there they go back after twice the time.
//!
//! A loop that frees and allocates keeps its segments young; a burst of frees is back with the driver within a second. A device
//! that is never idle keeps them until an allocation needs them: a free that waits for a kernel which waits for this process
//! would never end.
//!
//! # Locks
//! The thread holds a context's maintenance lock while it works on it, so that the context can't end meanwhile, and one of its
//! own, so that exit can wait until it is out of the driver.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use super::contexts::Context;
use super::process::{self, Phase, Process};
use super::{clock, driver, dump, signals, stack};
use crate::cuda::Driver;
use crate::report::Reason;

const TICK: Duration = Duration::from_millis(50);
const SAMPLE_MS: u64 = 1000;
/// Segments that go back within a call of the program; the thread goes on with the rest.
const SEGMENTS_AT_SYNCHRONISE: usize = 16;
/// How long a process that ends at once waits for its report.
const LAST_REPORT: Duration = Duration::from_secs(2);

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    /// Held while the thread is at work.
    at_work: Mutex<()>,
    is_running: AtomicBool,
    /// Who ends the process at once asks here for the last report: 1 `_exit`, 2 `abort`. A futex.
    asked: AtomicU32,
    is_done: AtomicBool,
}

/// Starts the thread. Without one, the hooks alone do the work when they are called.
pub(super) fn start(process: &'static Process) {
    let builder = std::thread::Builder::new().name("cenote".to_owned()).stack_size(512 << 10);
    process.keeper.is_running.store(true, Relaxed);
    helpers(1);
    let started = signals::blocked(signals::Block::All, || builder.spawn(move || run(process)));
    if started.is_err() {
        helpers(-1);
        process.keeper.is_running.store(false, Relaxed);
        process.events.note("no_helper_thread", || {
            "no helper thread could be started: idle memory goes back only when the program calls CUDA".to_owned()
        });
    }
}

impl Keeper {
    /// Exit has begun: waits until the thread is out of the driver, for a bounded time. It does not go there again.
    pub(super) fn leave_driver(&self) {
        for _ in 0..1000 {
            if !matches!(self.at_work.try_lock(), Err(TryLockError::WouldBlock)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets the thread write the last report and waits for it, for a bounded time. For callers that may be in a signal handler,
    /// in the middle of malloc or of one of our own locks: nothing here allocates or locks. Does nothing without the thread.
    pub(super) fn write_last(&self, reason: Reason) {
        if !self.is_running.load(Relaxed) {
            return;
        }
        self.asked.store(if reason == Reason::Abort { 2 } else { 1 }, Release);
        // SAFETY: wakes whoever waits on the word, which lives as long as the process.
        unsafe { libc::syscall(libc::SYS_futex, self.asked.as_ptr(), libc::FUTEX_WAKE, 1) };
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..LAST_REPORT.as_millis() {
            if self.is_done.load(Acquire) {
                break;
            }
            // SAFETY: `pause` is valid, and nobody asks for the rest.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        }
    }

    fn sleep(&self) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as libc::c_long };
        // SAFETY: waits on a word that lives as long as the process, while it is 0, for the given time.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.asked.as_ptr(),
                libc::FUTEX_WAIT,
                0,
                &raw const time,
            );
        }
    }
}

fn run(process: &'static Process) {
    let mut due = Due { sample_ms: 0, report_ms: clock::now_ms() };
    let keeper = &process.keeper;
    while !is_last_thread() {
        keeper.sleep();
        let reason = match keeper.asked.load(Acquire) {
            0 => None,
            1 => Some(Reason::ImmediateExit),
            _ => Some(Reason::Abort),
        };
        // A fault here must not end the job, nor the keeping.
        let _ = catch_unwind(AssertUnwindSafe(|| match reason {
            Some(reason) => dump::write_last(process, reason, &process.variables),
            None => tick(process, &mut due),
        }));
        if reason.is_some() {
            return keeper.is_done.store(true, Release);
        }
    }
    keeper.is_running.store(false, Relaxed);
    helpers(-1);
}

/// Threads of ours.
static HELPERS: AtomicU64 = AtomicU64::new(0);

/// A thread of ours is about to begin, or ends.
pub(super) fn helpers(more: i64) {
    HELPERS.fetch_add(more as u64, Relaxed);
}

/// Whether the main thread has left by `pthread_exit` and no thread of the program runs any more: then the process ends when
/// our threads do. Opens nothing: the program may count on the lowest free descriptor.
pub(super) fn is_last_thread() -> bool {
    // A folder has a link for itself, one from its parent, and one for each folder in it: ours are left, and the main one or none.
    let tasks = std::fs::metadata("/proc/self/task").map_or(u64::MAX, |folder| folder.nlink());
    // A thread that has left has no program any more.
    let main_is_gone = || {
        let main = format!("/proc/self/task/{}/exe", std::process::id());
        std::fs::read_link(main).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    tasks <= 3 + HELPERS.load(Relaxed) && main_is_gone()
}

/// When something was last done.
struct Due {
    sample_ms: u64,
    report_ms: u64,
}

fn tick(process: &'static Process, due: &mut Due) {
    let Ok(_at_work) = process.keeper.at_work.try_lock() else { return };
    if process::phase() != Phase::Awake {
        return;
    }
    stack::remember_modules_if_due(process.books);
    let now = clock::now_ms();
    let sample = now.saturating_sub(due.sample_ms) >= SAMPLE_MS;
    if sample {
        due.sample_ms = now;
    }
    process.contexts.each_living(|context| keep(process, context, sample));
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
    let _ = driver::within(context.handle, || {
        context.pool.settle();
        context.pool.give_back_doomed();
        if process.is_due(context, 1) {
            process.release(context, usize::MAX);
        }
        if sample_due {
            process.sample(context.device);
        }
    });
}

impl Process {
    /// Settles freed memory, and gives idle memory back if it is due and the device is idle; for moments at which it tends to be.
    /// Does so once in a tick.
    pub(super) fn settle_and_release(&'static self, context: &'static Context) {
        if !context.looked.passed(TICK.as_millis() as u64) {
            return;
        }
        context.pool.settle();
        if self.is_due(context, 1)
            && let Ok(_maintenance) = context.maintenance.try_lock()
            && context.is_alive()
        {
            self.release(context, SEGMENTS_AT_SYNCHRONISE);
        }
    }

    /// Whether some segment has been idle for so many times the configured time.
    fn is_due(&self, context: &Context, times: u64) -> bool {
        let is_measured = context.measured_by.load(Relaxed) > 0;
        self.pools()
            && !is_measured
            && context.pool.has_idle(times * self.idle_ms(), self.settings.retain)
    }

    fn idle_ms(&self) -> u64 {
        self.settings.idle_release.as_millis() as u64
    }

    fn release(&self, context: &Context, at_most: usize) {
        let (idle_ms, retain) = (self.idle_ms(), self.settings.retain);
        let released = match context.pool.driver().has_context_events() {
            true => context.pool.release_while_idle(idle_ms, retain, at_most),
            false => context.pool.release_idle(2 * idle_ms, retain),
        };
        if released > 0 {
            self.books.device(context.device).pool.idle_releases.fetch_add(1, Relaxed);
            self.sample(context.device);
        }
    }
}
