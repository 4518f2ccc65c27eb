//! Puts the adapter of `torch/` in PyTorch's place for its allocator, from inside the job, before the first tensor.
//!
//! PyTorch calls its allocator's `init` after `cuInit`, so the hook of `cuInit` is early enough. Where another library had
//! initialised the driver before PyTorch was loaded, the hooks of later calls look again: an allocator that is replaced late keeps
//! what it has handed out.
//!
//! Everything here happens once in a process and only if `torch:adapter` or the program asks for it. What does not work is said in
//! one line on stderr, and PyTorch keeps its own allocator.
#![expect(unsafe_code, reason = "looks at what is mapped, and calls the adapter")]

mod compile;
mod find;

use std::ffi::{CString, OsString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Mutex, PoisonError};

use super::log;
use crate::conf::{self, Mode, Settings, Torch};
use crate::cuda::{CuResult, loader};

/// Set while the adapter is wanted and PyTorch was not there yet.
static WANTED: AtomicBool = AtomicBool::new(false);
/// Set once the adapter is in.
static IS_IN: AtomicBool = AtomicBool::new(false);
/// Libraries that had been loaded in this process when it was last looked for.
static LOADED: AtomicU64 = AtomicU64::new(0);
/// Whether the adapter is in; held while it is put in.
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// The driver was initialised.
#[cold]
pub(super) fn driver_is_ready() {
    static ASKED: AtomicBool = AtomicBool::new(false);
    let is_first = !ASKED.swap(true, AcqRel);
    if is_first && is_asked_for() {
        WANTED.store(true, Relaxed);
    }
    look();
}

/// Installs the adapter if it is wanted, and PyTorch is there by now.
#[inline]
pub(super) fn look() {
    if WANTED.load(Relaxed) {
        let _ = catch_unwind(AssertUnwindSafe(look_again));
    }
}

#[cold]
fn look_again() {
    let loaded = find::libraries_loaded();
    if LOADED.swap(loaded, Relaxed) == loaded {
        return;
    }
    let Some(torch) = find::torch() else { return };
    // One thread does it; the others go on with PyTorch's own allocator until it is done.
    if WANTED.swap(false, AcqRel)
        && let Ok(mut installed) = INSTALLED.try_lock()
    {
        put_in(&torch, &mut installed);
    }
}

/// Whether PyTorch's memory comes from the engine.
pub(super) fn is_in() -> bool {
    IS_IN.load(Relaxed)
}

/// Puts the adapter in now, whatever the configuration says of `torch`.
///
/// # Errors
/// As [`shared::install_torch_adapter`](super::shared::install_torch_adapter).
pub(super) fn install_now() -> Result<(), CuResult> {
    let torch = find::torch().ok_or(CuResult::NOT_INITIALIZED)?;
    if !is_allowed() {
        return Err(CuResult::INVALID_VALUE);
    }
    // The hooks of what follows must not look for it too.
    WANTED.store(false, Relaxed);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    put_in(&torch, &mut installed);
    if *installed { Ok(()) } else { Err(CuResult::UNKNOWN) }
}

/// Puts the adapter in if it is not `installed`, and says why if it can't be.
fn put_in(torch: &find::Torch, installed: &mut bool) {
    if *installed {
        return;
    }
    match compile::adapter(torch).and_then(|library| install(&library)) {
        Ok(()) => {
            *installed = true;
            IS_IN.store(true, Relaxed);
        }
        Err(problem) => {
            log::say(&format!("torch:adapter: {problem}. PyTorch keeps its own allocator"));
        }
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn settings() -> Settings {
    let text = variable("CENOTE_CONF").unwrap_or_default();
    conf::parse(&text.to_string_lossy()).0
}

/// Whether the configuration asks for the adapter, and nothing else of it speaks against it.
fn is_asked_for() -> bool {
    settings().torch == Torch::Adapter && is_allowed()
}

/// Whether nothing in the environment speaks against the adapter.
fn is_allowed() -> bool {
    if variable("CENOTE_DISABLE").is_some_and(|value| value != "0") {
        return false;
    }
    match settings().mode {
        Mode::Pool => {}
        Mode::Off => return false,
        Mode::Observe => {
            log::say("torch:adapter is not used: mode:observe changes nothing");
            return false;
        }
    }
    if variable("PYTORCH_NO_CUDA_MEMORY_CACHING").is_some_and(|value| value != "0") {
        log::say("torch:adapter is not used: PYTORCH_NO_CUDA_MEMORY_CACHING asks for no cache");
        return false;
    }
    true
}

/// Opens a compiled adapter and puts it in.
fn install(library: &Path) -> Result<(), String> {
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path ends in a zero byte. The library was compiled by us, from our own source, in a folder that nobody else may
    // write to; its constructors do nothing.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(last_error());
    }
    let address = loader::lookup(handle as usize, c"cenote_adapter_install");
    let address = address.ok_or_else(|| format!("{} has no entry", library.display()))?;
    // SAFETY: the function of that name in our own library has this signature.
    let install: extern "C" fn() -> c_int =
        unsafe { std::mem::transmute(address as *const c_void) };
    match install() {
        0 => Ok(()),
        1 => Err("PyTorch has another allocator already".to_owned()),
        _ => Err("PyTorch can't read its own settings".to_owned()),
    }
}

fn last_error() -> String {
    // SAFETY: returns null, or a string that lives until the next call of the loader on this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the adapter can't be opened".to_owned();
    }
    // SAFETY: as above.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
