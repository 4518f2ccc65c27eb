//! What the rooms above need of the process: its settings, its budget, and whether the driver may still be called.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use once_cell::sync::OnceCell;

pub(crate) use super::driver::{relaxed, within};
use super::process::{self, Phase, Process};
use super::{dump, log, signals, torch};
use crate::conf::{self, Settings};
use crate::cuda::{CuResult, Handle, StreamHandle};
use crate::ledger::Kind;

/// Whether exit has begun, or this is the forked child of a process that used CUDA: no call to the driver any more.
pub(crate) fn driver_is_gone() -> bool {
    matches!(process::phase(), Phase::Exiting | Phase::Child)
}

/// The settings of the process. Where no hooked call has read them they are read now: the library may be opened without
/// being preloaded.
pub(crate) fn settings() -> Settings {
    if let Some(process) = process::current() {
        return process.settings.clone();
    }
    let text = std::env::var_os("CENOTE_CONF").unwrap_or_default();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (settings, problems) = conf::parse_with(&text.to_string_lossy(), variable);
    let under_run = std::env::var_os("CENOTE_RUN_DIR").is_some();
    problems.iter().for_each(|problem| log::warn_once(problem, under_run));
    settings
}

/// What a room above does when the program destroys a stream; set once.
pub(crate) static STREAM_ENDS: OnceCell<fn(StreamHandle)> = OnceCell::new();

/// What the room above keeps on a device, beside the pools of the doors; set once.
pub(crate) static KEEPS: OnceCell<Keeps> = OnceCell::new();

/// Asks for what is kept, and for its return.
#[derive(Debug)]
pub(crate) struct Keeps {
    /// Bytes that nobody has.
    pub(crate) idle_bytes: fn(u32) -> u64,
    /// Gives them back, waiting for the work in flight.
    pub(crate) trim: fn(u32) -> u64,
}

thread_local! {
    /// Set while the room above takes memory on this thread: it holds locks then, and has looked through what it keeps itself.
    static CREATING: Cell<bool> = const { Cell::new(false) };
}

/// While it lives this thread is [`CREATING`].
struct Creating;

impl Creating {
    fn begin() -> Self {
        CREATING.set(true);
        Creating
    }
}

impl Drop for Creating {
    fn drop(&mut self) {
        CREATING.set(false);
    }
}

/// Bytes that the room above would give back.
pub(super) fn kept_above(device: u32) -> u64 {
    KEEPS.get().map_or(0, |keeps| (keeps.idle_bytes)(device))
}

/// Has the room above give back what nobody has. Whether there is such a room, and this is no request of its own: however little it
/// gave, another thread may have given back meanwhile.
pub(super) fn trim_above(device: u32) -> bool {
    let keeps = KEEPS.get().filter(|_| !CREATING.get());
    if let Some(keeps) = keeps {
        (keeps.trim)(device);
    }
    keeps.is_some()
}

/// A process whose calls are seen, with its doors awake.
fn awake() -> Option<&'static Process> {
    process::current().filter(|_| process::phase() == Phase::Awake)
}

/// Takes physical memory from the driver by `call`, which gives a handle: within the budget that it shares with what the doors see,
/// and in the books. What the pools of the doors keep is given back first where that helps.
///
/// # Errors
/// Out of memory where the budget is used up; what the driver says.
pub(crate) fn create(
    device: u32,
    bytes: u64,
    mut call: impl FnMut() -> Result<Handle, CuResult>,
) -> Result<Handle, CuResult> {
    if torch::is_in() {
        // The memory of PyTorch's first tensor may be asked for before any hooked call.
        process::wake_if_asleep();
    }
    let Some(process) = awake() else { return call() };
    let _creating = Creating::begin();
    process.first_sight(device);
    if !process.take_budget(device, bytes) {
        return Err(CuResult::OUT_OF_MEMORY);
    }
    let mut handle = 0;
    let code = process.with_retry(device, || match call() {
        Ok(made) => {
            handle = made;
            CuResult::SUCCESS
        }
        Err(code) => code,
    });
    if !code.is_ok() {
        process.budget(device).put_back(bytes);
        return Err(code);
    }
    let block = process.block(Kind::Vmm, device, bytes, 0);
    process.count(&block);
    if let Some(overwritten) = process.handles.created(handle, block) {
        process.forget(&overwritten);
    }
    Ok(handle)
}

/// A handle of [`create`] is about to go back to the driver.
pub(crate) fn released(handle: Handle) {
    if let Some(process) = process::current()
        && let Some(block) = process.handles.released(handle)
    {
        process.forget(&block);
    }
}

/// A request is refused for good: for the account of it in the report.
pub(crate) fn refused(bytes: u64) {
    if let Some(process) = awake() {
        process.refuse(process.context(), bytes);
    }
}

/// Writes a report now, to `path` or to where the reports of this process go. Returns where it is.
///
/// # Errors
/// Not initialised where no call of the driver was seen; unknown where it can't be written, which is noted.
pub(crate) fn dump(path: Option<&Path>) -> Result<PathBuf, CuResult> {
    if driver_is_gone() {
        return Err(CuResult::DEINITIALIZED);
    }
    let process = awake().ok_or(CuResult::NOT_INITIALIZED)?;
    dump::write_now(process, path).ok_or(CuResult::UNKNOWN)
}

/// Puts the adapter in the place of PyTorch's allocator, if it is not there already.
///
/// # Errors
/// Not initialised where PyTorch is not loaded; an invalid value where the environment forbids it; unknown where the adapter can't be
/// had, which is said on stderr.
pub(crate) fn install_torch_adapter() -> Result<(), CuResult> {
    torch::install_now()
}

/// Runs `call` while no stream captures and none begins to; not at all while one does. Where the doors are asleep nobody can tell.
pub(crate) fn outside_captures<T>(call: impl FnOnce() -> T) -> Option<T> {
    let Some(process) = awake() else { return Some(call()) };
    let _begins = process.contexts.stop_making();
    (process.captures.count() == 0).then(call)
}

/// Starts a thread that takes none of the program's signals.
///
/// # Errors
/// If there is none to be had.
pub(crate) fn helper_thread(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(512 << 10);
    signals::blocked(signals::Block::All, || builder.spawn(body)).map(drop)
}
