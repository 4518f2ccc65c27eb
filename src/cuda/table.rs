//! The addresses of the driver's functions, and calls through them.
#![expect(unsafe_code, reason = "calls foreign functions by address")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use super::{
    AccessDesc, AllocationProp, ContextHandle, CuResult, DevicePtr, IpcHandle, StreamHandle, loader,
};

macro_rules! table {
    (
        lookups { $($lookup:ident($($l_arg:ident: $l_type:ty),*);)* }
        launches { $($launch:ident[$kernel:ident]($($n_arg:ident: $n_type:ty),*);)* }
        starts { $($start:ident($($s_arg:ident: $s_type:ty),*);)* }
        hooked { $($hooked:ident($($h_arg:ident: $h_type:ty),*);)* }
        called { $($called:ident($($c_arg:ident: $c_type:ty),*);)* }
    ) => {
        /// A function of the driver, under its exact name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(non_camel_case_types, missing_docs, reason = "the driver's own names")]
        pub enum Function { $($lookup,)* $($launch,)* $($start,)* $($hooked,)* $($called,)* }

        /// Names of all functions, in the order of [`Function`].
        pub const NAMES: &[&str] = &[$(stringify!($lookup),)* $(stringify!($launch),)* $(stringify!($start),)* $(stringify!($hooked),)* $(stringify!($called),)*];
        /// The first so many of them are hooked.
        pub const HOOKED: usize = [$(stringify!($lookup),)* $(stringify!($launch),)* $(stringify!($start),)* $(stringify!($hooked),)*].len();

        /// The driver's own functions. Where the driver lacks one, or is not loaded, they answer
        /// `CUDA_ERROR_NOT_INITIALIZED`, as the driver does before `cuInit`.
        #[allow(
            non_snake_case,
            clippy::missing_safety_doc,
            clippy::too_many_arguments,
            missing_docs,
            reason = "as documented in cuda.h"
        )]
        pub mod real {
            use super::*;

            $(table!(@call $lookup($($l_arg: $l_type),*));)*
            $(table!(@call $launch($($n_arg: $n_type),*));)*
            $(table!(@call $start($($s_arg: $s_type),*));)*
            $(table!(@call $hooked($($h_arg: $h_type),*));)*
            $(table!(@call $called($($c_arg: $c_type),*));)*
        }
    };
    (@call $name:ident($($arg:ident: $type:ty),*)) => {
        pub unsafe fn $name($($arg: $type),*) -> CuResult {
            let address = address(Function::$name);
            if address == 0 {
                return CuResult::NOT_INITIALIZED;
            }
            // SAFETY: a slot holds the driver's function of that name (I1 of the module), whose C signature the list in
            // `api.rs` repeats; the obligations on the arguments are the caller's.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> CuResult = std::mem::transmute(address);
                function($($arg),*)
            }
        }
    };
}

driver_api!(table);

static SLOTS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
/// 1 once all slots are filled.
static FILLED: AtomicUsize = AtomicUsize::new(0);

/// The driver's address of a function; 0 where there is none. Fills the table at the first call after the driver was mapped.
pub fn address(function: Function) -> usize {
    if FILLED.load(Acquire) == 0 {
        fill();
    }
    SLOTS[function as usize].load(Relaxed)
}

/// Whether the driver has the function.
pub fn has(function: Function) -> bool {
    address(function) != 0
}

/// Whether the driver has the hooked function of that index.
pub fn has_hooked(index: usize) -> bool {
    SLOTS[..HOOKED].get(index).is_some_and(|slot| slot.load(Relaxed) != 0)
}

/// Which hooked function of the driver lies at the address.
pub fn hooked_at(at: usize) -> Option<usize> {
    if FILLED.load(Acquire) == 0 {
        fill();
    }
    SLOTS[..HOOKED].iter().position(|slot| slot.load(Relaxed) == at && at != 0)
}

/// Looks every name up in the mapped driver. Two threads may do it at once: both write the same addresses.
fn fill() {
    let Some(driver) = loader::mapped_driver() else { return };
    for (slot, name) in SLOTS.iter().zip(NAMES) {
        slot.store(driver.symbol(name).unwrap_or(0), Relaxed);
    }
    FILLED.store(1, Release);
}
