//! From the living process to its report file.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::environment::{self, Variables};
use super::process::{Process, lock};
use super::{clock, doors, signals, stack};
use crate::conf::KEYS;
use crate::cuda::loader;
use crate::cuda::table::{self, Function};
use crate::ledger::MAX_DEVICES;
use crate::page::State;
use crate::pool::{SegmentView, SlotState};
use crate::report::write::{self as file, WriteError};
use crate::report::{self, Coverage, Doors, Note, Reason, Segment, Snapshot};

/// Reports that an out-of-memory may write; a job that lives on refusals must not write a file each time.
const OUT_OF_MEMORY_REPORTS: u32 = 4;
/// How long one report waits for another that is being written.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was written so far.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Where; held while a report is made, so that there is one at a time.
    path: Mutex<Option<PathBuf>>,
    out_of_memory: AtomicU32,
}

/// Whether somebody asked for a report through the page.
pub(super) fn requested(process: &Process) -> bool {
    let page = process.page.page;
    let request = page.requested.load(Relaxed);
    page.served.swap(request, Relaxed) != request
}

/// Writes a report for a refused allocation: for the first few.
pub(super) fn out_of_memory(process: &Process, reason: Reason) {
    if process.reports.out_of_memory.fetch_add(1, Relaxed) < OUT_OF_MEMORY_REPORTS {
        write(process, reason);
    }
}

/// Writes the last report, and closes the page. Called by the thread that ends the process, or by the keeper in its stead.
pub(super) fn write_last(process: &Process, reason: Reason, variables: &Variables) {
    write_as(process, reason, variables, PATIENCE);
    let page = process.page.page;
    if page.state.load(Relaxed) != State::Reported as u32 {
        return;
    }
    // `cenote run` reads the page to learn where the report is; without it, nobody needs the page any more.
    if variables.get("CENOTE_RUN_DIR").is_none() {
        process.page.remove();
    }
}

/// Writes a report, unless another thread is at it.
pub(super) fn write(process: &Process, reason: Reason) {
    write_as(process, reason, &process.variables, Duration::ZERO);
}

/// Writes a report that the program asks for, to `path`, or to where its reports go. Returns where it is.
pub(super) fn write_now(process: &Process, path: Option<&Path>) -> Option<PathBuf> {
    let Some(path) = path else {
        return write_as(process, Reason::Request, &process.variables, PATIENCE);
    };
    let _one_at_a_time = try_for(&process.reports.path, PATIENCE)?;
    let report = report::build(&snapshot(process, Reason::Request, &process.variables));
    // A file that the program names is its own: it is replaced.
    put(process, || file::write(&report, path, 0, Some(path)))
}

fn write_as(
    process: &Process,
    reason: Reason,
    variables: &Variables,
    patience: Duration,
) -> Option<PathBuf> {
    let mut path = try_for(&process.reports.path, patience)?;
    let report = report::build(&snapshot(process, reason, variables));
    let page = process.page.page;
    let wanted = environment::output(variables, &process.folder, page);
    let run_started = environment::run_started_unix_ns(variables);
    let written = put(process, || file::write(&report, &wanted, run_started, path.as_deref()))?;
    page.report_path.set(written.as_os_str().as_bytes());
    if matches!(reason, Reason::Exit | Reason::ImmediateExit | Reason::Abort) {
        page.state.store(State::Reported as u32, Relaxed);
    }
    *path = Some(written.clone());
    Some(written)
}

/// Writes a file; one that can't be written is noted for the next report.
fn put(process: &Process, write: impl FnOnce() -> Result<PathBuf, WriteError>) -> Option<PathBuf> {
    let written = signals::blocked(signals::Block::FileSize, write);
    let noted = written.inspect_err(|error| {
        tracing::error!(%error, "no report");
        process.events.note("report_not_written", || error.to_string());
    });
    noted.ok()
}

/// Takes a lock within a time. A thread that died in the middle of the process' end may hold it for ever.
fn try_for<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let end = Instant::now() + patience;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(guard)) => return Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

fn snapshot<'a>(process: &'a Process, reason: Reason, variables: &Variables) -> Snapshot<'a> {
    let events = process.events.events();
    stack::remember_modules(process.books);
    let stacks =
        events.0.iter().flat_map(|event| [&event.stack, &event.allocated_at, &event.freed_at]);
    stacks.flatten().for_each(|&frame| stack::remember_module(process.books, frame as usize));
    let mut live = process.live.all();
    live.extend(process.handles.all());
    let segments = segments(process);
    Snapshot {
        books: process.books,
        reason,
        complete: true,
        process: describe(process, variables),
        configuration: configuration(process),
        coverage: coverage(process, variables),
        events,
        notes: notes(process),
        live: Some(live),
        freed_during_exit: lock(&process.freed_during_exit).clone(),
        segments,
        devices: lock(&process.device_names).clone(),
    }
}

fn describe(process: &Process, variables: &Variables) -> report::Process {
    let page = process.page.page;
    let command = page.command.get();
    let arguments = command.split(|&byte| byte == 0).filter(|argument| !argument.is_empty());
    // The coarse clock of the blocks may be a tick ahead.
    let duration_ns =
        clock::unix_ns().saturating_sub(process.started_unix_ns).max(process.age_ns());
    report::Process {
        pid: process.pid,
        parent_pid: page.parent_pid.load(Relaxed),
        executable: page.executable.get_string(),
        command: arguments.map(|a| String::from_utf8_lossy(a).into_owned()).collect(),
        host: page.host.get_string(),
        started_unix_ns: process.started_unix_ns,
        duration_ns,
        rank: report::rank(|name| variables.text(name)),
        environment: variables.telling(),
    }
}

/// The settings that were given, over the defaults.
fn configuration(process: &Process) -> BTreeMap<String, String> {
    let defaults = KEYS.iter().map(|key| (key.name.to_owned(), key.default.to_owned()));
    let mut settings: BTreeMap<_, _> = defaults.collect();
    let given = process.page.page.configuration.get_string();
    for (name, value) in given.split(',').filter_map(|pair| pair.split_once(':')) {
        if let Some(setting) = settings.get_mut(name.trim()) {
            *setting = value.trim().to_owned();
        }
    }
    settings
}

fn coverage(process: &Process, variables: &Variables) -> Coverage {
    let (seen, missing) = doors::calls_seen();
    let driver = loader::module_at(table::address(Function::cuMemAlloc_v2));
    let order = match (process.pools(), table::has(Function::cuCtxRecordEvent)) {
        (false, _) => "none",
        (true, true) if !process.settings.free_barrier => "context_event",
        (true, _) => "synchronise",
    };
    Coverage {
        mode: if process.pools() { "pool" } else { "observe" }.to_owned(),
        driver: driver.map(|(_, path)| path.to_string_lossy().into_owned()),
        driver_version: driver_version(process),
        doors: Doors {
            dlsym: doors::BY_DLSYM.load(Relaxed),
            get_proc_address: doors::BY_GET_PROC_ADDRESS.load(Relaxed),
        },
        calls: seen.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        missing: missing.into_iter().map(str::to_owned).collect(),
        other_preloads: other_preloads(variables),
        order: order.to_owned(),
    }
}

/// The version was asked for when the process woke up: now it may be too late.
fn driver_version(process: &Process) -> Option<u32> {
    Some(process.page.page.driver_version.load(Relaxed)).filter(|&version| version != 0)
}

fn other_preloads(variables: &Variables) -> Vec<String> {
    let own = loader::module_at(other_preloads as *const () as usize).map(|(_, path)| path);
    let set = variables.text("LD_PRELOAD").unwrap_or_default();
    let others = set.split([' ', ':']).filter(|name| !name.is_empty());
    others
        .filter(|name| own.as_ref().is_none_or(|own| own.as_os_str() != *name))
        .map(str::to_owned)
        .collect()
}

fn notes(process: &Process) -> Vec<Note> {
    let notes = process.events.notes().into_iter();
    notes.map(|(code, text, count)| Note { code: code.to_owned(), text, count }).collect()
}

fn segments(process: &Process) -> Vec<(u32, Segment)> {
    let mut segments = Vec::new();
    process.contexts.each_living(|context| match context.pool.segments() {
        Some(views) => {
            // Counted where its blocks are, should there be more devices than books.
            let device = context.device.min(MAX_DEVICES as u32 - 1);
            segments.extend(views.iter().map(|view| (device, segment(view))));
        }
        None => process.events.note("segments_left_out", || {
            "the map of segments is missing: a thread did not leave the pool of its context"
                .to_owned()
        }),
    });
    segments
}

fn segment(view: &SegmentView) -> Segment {
    let letter = |state| match state {
        SlotState::Live => 'L',
        SlotState::Waiting => 'w',
        SlotState::Ready => 'f',
        SlotState::Withheld => 'x',
    };
    let runs = view.runs.iter().map(|&(state, length)| match view.slot_bytes {
        Some(_) => format!("{}{length}", letter(state)),
        None => letter(state).to_string(),
    });
    Segment {
        address: format!("{:#x}", view.address),
        bytes: view.bytes,
        live_bytes: view.live_bytes,
        waiting_bytes: view.waiting_bytes,
        slot_bytes: view.slot_bytes,
        exported: view.exported,
        map: runs.collect(),
    }
}
