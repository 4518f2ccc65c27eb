//! The process as cenote sees it: made by the first hooked call, and the phase of its life.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::budget::Budget;
use super::calls::{capture::Captures, ipc::Opened, vmm::Handles};
use super::contexts::Contexts;
use super::{clock, environment, keeper, lifecycle, log, signals};
use crate::conf::{Mode, Settings};
use crate::cuda::loader;
use crate::cuda::table::{Function, NAMES};
use crate::ledger::{Block, Books, Events, LiveBlocks, MAX_DEVICES, SiteId, Sites};
use crate::page::{MAGIC, PageFile};

/// Phases of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// No hooked call yet.
    Asleep = 0,
    /// Tracking, and pooling if so configured.
    Awake = 1,
    /// Switched off, by configuration or since it could not start.
    Off = 2,
    /// The forked child of a process that used CUDA: the driver is dead here, and so are we.
    Child = 3,
    /// Exit has begun: no call of ours to the driver any more.
    Exiting = 4,
}

static PHASE: AtomicU8 = AtomicU8::new(Phase::Asleep as u8);
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// Everything that cenote keeps for a process. Made once, never dropped.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) settings: Settings,
    pub(super) pid: u32,
    pub(super) started_unix_ns: u64,
    started_ms: u64,
    pub(super) page: PageFile,
    pub(super) books: &'static Books,
    pub(super) live: LiveBlocks,
    pub(super) events: Events,
    pub(super) contexts: Contexts,
    pub(super) budgets: [Budget; MAX_DEVICES],
    pub(super) handles: Handles,
    pub(super) opened: Opened,
    pub(super) captures: Captures,
    /// Stacks of frees, by tag; so that a double free can name the first one.
    pub(super) free_stacks: Mutex<HashMap<u64, Vec<u64>>>,
    pub(super) freed_during_exit: Mutex<Vec<(SiteId, Block)>>,
    pub(super) reports: super::dump::Reports,
    /// Ordinal, name and UUID of each device that was used.
    pub(super) device_names: Mutex<Vec<(u32, String, String)>>,
    pub(super) samplers: [Sampler; MAX_DEVICES],
    pub(super) keeper: keeper::Keeper,
    /// The environment as it was at the first hooked call.
    pub(super) variables: environment::Variables,
    /// Where the program was at that time.
    pub(super) folder: PathBuf,
}

/// When a device was last asked what is used.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    pub(super) asked: clock::Every,
    /// Driver allocations of its pools at that time.
    pub(super) grown: AtomicU64,
}

/// What a hooked call may do.
#[derive(Debug)]
pub(super) enum Admission {
    /// Go through cenote.
    Enter(&'static Process),
    /// Go to the driver.
    Pass,
    /// Succeed without doing anything.
    Swallow,
}

/// Decides on a hooked call; the first one wakes cenote up.
pub(super) fn admit(function: Function) -> Admission {
    match phase() {
        Phase::Awake | Phase::Exiting => current().map_or(Admission::Pass, Admission::Enter),
        Phase::Asleep => wake().map_or(Admission::Pass, Admission::Enter),
        Phase::Off => Admission::Pass,
        Phase::Child if is_free(function) => Admission::Swallow,
        Phase::Child => Admission::Pass,
    }
}

/// Frees of inherited memory in a forked child do nothing: the parent owns it.
fn is_free(function: Function) -> bool {
    use Function::*;
    matches!(
        function,
        cuMemFree_v2
            | cuMemFreeAsync
            | cuMemFreeAsync_ptsz
            | cuMemFreeHost
            | cuMemUnmap
            | cuMemRelease
    )
}

pub(super) fn phase() -> Phase {
    match PHASE.load(Acquire) {
        0 => Phase::Asleep,
        1 => Phase::Awake,
        3 => Phase::Child,
        4 => Phase::Exiting,
        _ => Phase::Off,
    }
}

pub(super) fn set_phase(phase: Phase) {
    PHASE.store(phase as u8, Relaxed);
}

pub(super) fn is_off() -> bool {
    phase() == Phase::Off
}

/// The process, if it is awake or has been.
pub(super) fn current() -> Option<&'static Process> {
    // SAFETY: the pointer is null or came from `Box::leak` in `wake`, and what it points to is never dropped.
    unsafe { PROCESS.load(Acquire).as_ref() }
}

/// In a forked child of a process that never used CUDA: everything starts anew, with its own page and name.
pub(super) fn start_over() {
    PROCESS.store(std::ptr::null_mut(), Relaxed);
    set_phase(Phase::Asleep);
}

/// Begins to look after a process that no hooked call was seen of yet.
pub(super) fn wake_if_asleep() {
    if phase() == Phase::Asleep {
        wake();
    }
}

/// Makes the process. Threads that do it at once each make one, and one of them stays; nobody waits for another.
fn wake() -> Option<&'static Process> {
    // A host without a driver: the exported names are all that there is of CUDA, and nothing happens.
    loader::mapped_driver()?;
    std::panic::set_hook(Box::new(|_| ()));
    let environment = environment::read();
    log::start(environment.log);
    if environment.disabled || environment.settings.mode == Mode::Off {
        set_phase(Phase::Off);
        return None;
    }
    let (process, page_problem) = Process::new(&environment)?;
    let fresh: *mut Process = Box::leak(Box::new(process));
    let null = std::ptr::null_mut();
    if PROCESS.compare_exchange(null, fresh, AcqRel, Acquire).is_err() {
        // SAFETY: the exchange failed, so nobody else has seen `fresh`; it stays allocated.
        unsafe { (*fresh).page.remove() };
        return current();
    }
    let process = current()?;
    for problem in environment.problems.iter().chain(&page_problem) {
        process.events.note("configuration", || problem.clone());
        log::warn_once(problem, environment.under_run);
    }
    lifecycle::register();
    set_phase(Phase::Awake);
    keeper::start(process);
    Some(process)
}

impl Process {
    /// The process, and why it has no page file if it has none.
    fn new(environment: &environment::Environment) -> Option<(Process, Option<String>)> {
        let pid = std::process::id();
        let started_unix_ns = clock::unix_ns();
        let create = || crate::page::create(&environment.pages, pid, started_unix_ns);
        let (page, problem) = match signals::blocked(signals::Block::FileSize, create) {
            Ok(page) => (page, None),
            Err(error) => {
                let text =
                    format!("{error}: the numbers do not survive a kill; set CENOTE_RUNTIME_DIR");
                (PageFile::anonymous().ok()?, Some(text))
            }
        };
        environment.describe(page.page, pid, started_unix_ns);
        page.page.magic.store(MAGIC, Relaxed);
        let process = Process {
            settings: environment.settings.clone(),
            pid,
            started_unix_ns,
            started_ms: clock::now_ms(),
            books: &page.page.books,
            page,
            live: LiveBlocks::default(),
            events: Events::new(),
            contexts: Contexts::default(),
            budgets: [const { Budget::new() }; MAX_DEVICES],
            handles: Handles::default(),
            opened: Opened::default(),
            captures: Captures::default(),
            free_stacks: Mutex::default(),
            freed_during_exit: Mutex::default(),
            reports: Default::default(),
            device_names: Mutex::default(),
            samplers: Default::default(),
            keeper: keeper::Keeper::default(),
            variables: environment.variables.clone(),
            folder: environment.folder.clone(),
        };
        Some((process, problem))
    }

    /// The call sites of the process.
    pub(super) fn sites(&self) -> Sites<'static> {
        Sites::of(self.books)
    }

    /// The budget of a device.
    pub(super) fn budget(&self, device: u32) -> &Budget {
        let index = (device as usize).min(MAX_DEVICES - 1);
        self.budgets.get(index).unwrap_or(&NO_BUDGET)
    }

    /// The sampler of a device.
    pub(super) fn sampler(&self, device: u32) -> &Sampler {
        self.samplers.get((device as usize).min(MAX_DEVICES - 1)).unwrap_or(&NO_SAMPLER)
    }

    /// Milliseconds since the first hooked call.
    pub(super) fn age_ms(&self) -> u64 {
        clock::now_ms().saturating_sub(self.started_ms)
    }

    /// Whether memory is pooled.
    pub(super) fn pools(&self) -> bool {
        self.settings.mode == Mode::Pool
    }

    /// A free after exit had begun.
    pub(super) fn note_late_free(&self, block: Block) {
        if phase() == Phase::Exiting {
            lock(&self.freed_during_exit).push((block.site, block));
        }
    }
}

static NO_BUDGET: Budget = Budget::new();
static NO_SAMPLER: Sampler = Sampler { asked: clock::Every::new(), grown: AtomicU64::new(0) };

/// A mutex whose owner panicked still guards valid data here: each critical section is a single update.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic was caught at a door.
pub(super) fn note_fault(function: Function) {
    if let Some(process) = current() {
        let name = NAMES.get(function as usize).copied().unwrap_or("a hooked function");
        let text = || {
            format!("an internal error in {name}: the call went to the driver; please report it")
        };
        process.events.note("internal_error", text);
    }
}
