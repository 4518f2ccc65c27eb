//! The exported functions: one for each line of the hooked part of the driver's list.
//!
//! Each wrapper does the same: count, ask whether cenote is awake and this is not a call from within, run the call behind
//! `catch_unwind`, and on a panic let the driver answer.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::calls;
use super::process::{self, Admission, Process};
use super::torch;
use crate::cuda::table::{self, Function, HOOKED};
use crate::cuda::{
    AllocationProp, ContextHandle, CuResult, DevicePtr, IpcHandle, StreamHandle, real,
};

/// Calls seen, by function.
static CALLS: [AtomicU64; HOOKED] = [const { AtomicU64::new(0) }; HOOKED];

/// Lookups that `dlsym` answered with a hook.
pub(super) static BY_DLSYM: AtomicU64 = AtomicU64::new(0);
/// Lookups that `cuGetProcAddress` answered with a hook.
pub(super) static BY_GET_PROC_ADDRESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Set while this thread is inside a call of ours. Has no destructor: registering one could allocate.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Address of a hook, for statics.
struct Hook(*const ());

// SAFETY: the pointer is the address of a function and is never written through.
unsafe impl Sync for Hook {}

macro_rules! doors {
    (
        lookups { $($lookup:ident($symbol:ident: $s_type:ty, $pfn:ident: $p_type:ty $(, $l_arg:ident: $l_type:ty)*);)* }
        launches { $($launch:ident[$kernel:ident]($($n_arg:ident: $n_type:ty),*);)* }
        starts { $($start:ident($($t_arg:ident: $t_type:ty),*);)* }
        hooked { $($name:ident($($arg:ident: $type:ty),*);)* }
        called { $($called:tt)* }
    ) => {
        $(
            #[doc = concat!("`", stringify!($lookup), "`: the driver's answer, or our hook in its place.")]
            ///
            /// # Safety
            /// As documented in `cuda.h`.
            #[cfg_attr(feature = "doors", unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the driver's own name")]
            pub unsafe extern "C" fn $lookup($symbol: $s_type, $pfn: $p_type $(, $l_arg: $l_type)*) -> CuResult {
                // SAFETY: the caller's obligations are the driver's.
                let code = unsafe { real::$lookup($symbol, $pfn $(, $l_arg)*) };
                // SAFETY: the driver accepted the same pointer.
                unsafe { answer(Function::$lookup, $pfn, code) };
                code
            }
        )*
        $(
            #[doc = concat!("`", stringify!($launch), "`: the first launch of each kernel is measured, since it may load code.")]
            ///
            /// # Safety
            /// As documented in `cuda.h`.
            #[cfg_attr(feature = "doors", unsafe(no_mangle))]
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver's own")]
            pub unsafe extern "C" fn $launch($($n_arg: $n_type),*) -> CuResult {
                // SAFETY: the caller's obligations are the driver's.
                let driver = || unsafe { real::$launch($($n_arg),*) };
                if calls::is_known($kernel) {
                    match driver() {
                        // The pools may have what it lacks.
                        CuResult::OUT_OF_MEMORY => {}
                        code => return code,
                    }
                }
                enter(Function::$launch, |process| calls::first_launch(process, driver), driver)
            }
        )*
        $(
            #[doc = concat!("`", stringify!($start), "`: afterwards PyTorch may be given the adapter. Wakes nothing up.")]
            ///
            /// # Safety
            /// As documented in `cuda.h`.
            #[cfg_attr(feature = "doors", unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the driver's own name")]
            pub unsafe extern "C" fn $start($($t_arg: $t_type),*) -> CuResult {
                count(Function::$start);
                // SAFETY: the caller's obligations are the driver's.
                let code = unsafe { real::$start($($t_arg),*) };
                if code.is_ok() {
                    torch::driver_is_ready();
                }
                code
            }
        )*
        $(
            #[doc = concat!("`", stringify!($name), "`, hooked.")]
            ///
            /// # Safety
            /// As documented in `cuda.h`.
            #[cfg_attr(feature = "doors", unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the driver's own name")]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> CuResult {
                enter(
                    Function::$name,
                    // SAFETY: the caller's obligations are the driver's, which `calls` repeats.
                    |process| unsafe { calls::$name(process, $($arg),*) },
                    // SAFETY: as above.
                    || unsafe { real::$name($($arg),*) },
                )
            }
        )*

        static HOOKS: [Hook; HOOKED] = [$(Hook($lookup as *const ()),)* $(Hook($launch as *const ()),)* $(Hook($start as *const ()),)* $(Hook($name as *const ()),)*];
    };
}

driver_api!(doors);

/// Address of our function for the hooked function of that index.
pub(super) fn hook(index: usize) -> usize {
    HOOKS.get(index).map_or(0, |hook| hook.0 as usize)
}

/// Index of a hooked function by its exact name.
pub(super) fn index_of(name: &[u8]) -> Option<usize> {
    if !name.starts_with(b"cu") {
        return None;
    }
    table::NAMES.iter().take(HOOKED).position(|hooked| hooked.as_bytes() == name)
}

/// Calls seen, by name, of the functions that the driver has; and the names that it lacks.
pub(super) fn calls_seen() -> (Vec<(&'static str, u64)>, Vec<&'static str>) {
    let named = table::NAMES.iter().copied().zip(&CALLS).enumerate();
    let (mut seen, mut missing) = (Vec::new(), Vec::new());
    for (index, (name, count)) in named {
        if table::has_hooked(index) {
            seen.push((name, count.load(Relaxed)));
        } else {
            missing.push(name);
        }
    }
    (seen, missing)
}

fn count(function: Function) {
    if let Some(count) = CALLS.get(function as usize) {
        count.fetch_add(1, Relaxed);
    }
}

/// Replaces the driver's answer to a lookup when it is a function that we hook. Decided by the returned address: so versions,
/// suffixes and the 32-bit ABI are right by construction.
///
/// # Safety
/// `pfn` must be what the driver was given.
unsafe fn answer(function: Function, pfn: *mut usize, code: CuResult) {
    count(function);
    if !code.is_ok() || pfn.is_null() || process::is_off() {
        return;
    }
    // SAFETY: the driver has just written there, and it is the caller's to read.
    if let Some(index) = table::hooked_at(unsafe { *pfn }) {
        // SAFETY: as above.
        unsafe { *pfn = hook(index) };
        BY_GET_PROC_ADDRESS.fetch_add(1, Relaxed);
    }
}

fn enter(
    function: Function,
    call: impl FnOnce(&'static Process) -> CuResult,
    driver: impl FnOnce() -> CuResult,
) -> CuResult {
    count(function);
    if INSIDE.get() {
        return driver();
    }
    INSIDE.set(true);
    torch::look();
    let outcome = catch_unwind(AssertUnwindSafe(|| match process::admit(function) {
        Admission::Enter(process) => Some(call(process)),
        Admission::Pass => None,
        Admission::Swallow => Some(CuResult::SUCCESS),
    }));
    INSIDE.set(false);
    match outcome {
        Ok(Some(code)) => code,
        Ok(None) => driver(),
        Err(_) => {
            process::note_fault(function);
            driver()
        }
    }
}
