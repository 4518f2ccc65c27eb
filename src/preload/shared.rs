//! What the rooms above need of the process: its settings, its budget, and whether the driver may still be called.

use once_cell::sync::OnceCell;

pub(crate) use super::driver::{relaxed, within};
use super::log;
use super::process::{self, Phase};
use crate::conf::{self, Settings};
use crate::cuda::{CuResult, StreamHandle};

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

/// Takes memory from the driver by `call`, within the budget that it shares with what the doors see. What the pools of the doors
/// keep is given back first where that helps. Returns the bytes that were taken from the budget.
///
/// # Errors
/// Out of memory where the budget is used up; what the driver says.
pub(crate) fn take(
    device: u32,
    bytes: u64,
    mut call: impl FnMut() -> CuResult,
) -> Result<u64, CuResult> {
    let process = process::current().filter(|_| process::phase() == Phase::Awake);
    let Some(process) = process else { return call().ok().map(|()| 0) };
    if !process.take_budget(device, bytes) {
        return Err(CuResult::OUT_OF_MEMORY);
    }
    let code = process.with_retry(device, call);
    code.ok().map(|()| bytes).inspect_err(|_| process.budget(device).put_back(bytes))
}

/// Gives bytes back to the budget that were taken from it.
pub(crate) fn put_back(device: u32, bytes: u64) {
    if let Some(process) = process::current() {
        process.budget(device).put_back(bytes);
    }
}
