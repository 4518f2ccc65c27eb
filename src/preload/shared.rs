//! What the rooms above need of the process: its settings, its budget, and whether the driver may still be called.

use once_cell::sync::OnceCell;

pub(crate) use super::driver::{relaxed, within};
use super::process::{self, Phase, Process};
use super::{log, signals};
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
    let (settings, problems) = conf::parse(&text.to_string_lossy());
    let under_run = std::env::var_os("CENOTE_RUN_DIR").is_some();
    problems.iter().for_each(|problem| log::warn_once(problem, under_run));
    settings
}

/// What a room above does when the program destroys a stream; set once.
pub(crate) static STREAM_ENDS: OnceCell<fn(StreamHandle)> = OnceCell::new();

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
    let Some(process) = awake() else { return call() };
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
