//! The `dlsym` door.
//!
//! glibc takes the meaning of `RTLD_NEXT` from the return address of `dlsym`. A hook that calls the true one answers for the
//! wrong library, so this one jumps: it saves its two arguments, asks `route` whether the answer is ours, and otherwise leaves
//! to the true `dlsym` as if it had never been there, `dlerror` text included.
//!
//! # Invariants
//! 1. Behind the door nothing allocates, logs, or takes a lock but the loader's own, which `dlsym` takes too.
//! 2. It works before anything was initialised: statics are zero and that is a valid state.
//! 3. It never answers for a name that the asked library does not have.

use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{doors, process};
use crate::cuda::loader;

/// Address of the true `dlsym`, for the jump.
static TRUE_DLSYM: AtomicUsize = AtomicUsize::new(0);

/// What `route` decided: returned in `rax` and `rdx`.
#[derive(Debug)]
#[repr(C)]
struct Answer {
    address: usize,
    /// 0: leave to the true `dlsym`.
    is_final: usize,
}

const PASS: Answer = Answer { address: 0, is_final: 0 };
const ABSENT: Answer = Answer { address: 0, is_final: 1 };

/// `dlsym`: our hook where the name is hooked and the asked library is the driver, the true answer otherwise.
///
/// # Safety
/// As `dlsym(3)`.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "mov rdx, [rsp]",
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {route}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jne 2f",
        "jmp qword ptr [rip + {true_dlsym}]",
        "2: ret",
        route = sym route,
        true_dlsym = sym TRUE_DLSYM,
    )
}

#[cfg(all(feature = "doors", not(target_arch = "x86_64")))]
compile_error!("the dlsym door is written for x86-64 only");

/// # Safety
/// `name` is null or ends in a zero byte.
unsafe extern "C" fn route(handle: usize, name: *const c_char, caller: usize) -> Answer {
    if TRUE_DLSYM.load(Relaxed) == 0 {
        match loader::true_dlsym() {
            0 => return ABSENT,
            address => TRUE_DLSYM.store(address, Relaxed),
        }
    }
    if name.is_null() || handle == libc::RTLD_NEXT as usize {
        return PASS;
    }
    // SAFETY: the caller gave a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(index) = doors::index_of(name.to_bytes()) else { return PASS };
    if process::is_off() || loader::in_driver(caller) || loader::in_this_library(caller) {
        return PASS;
    }
    decide(handle, name, index, caller)
}

fn decide(handle: usize, name: &CStr, index: usize, caller: usize) -> Answer {
    let Some(found) = loader::lookup(handle, name) else { return PASS };
    let ours = Answer { address: doors::hook(index), is_final: 1 };
    if loader::in_driver(found) {
        doors::BY_DLSYM.fetch_add(1, Relaxed);
        return ours;
    }
    if !loader::in_this_library(found) {
        return PASS;
    }
    // The default scope found our own export: answer only if the driver would have been found without it, in the global scope or
    // in that of the caller.
    match loader::lookup(libc::RTLD_NEXT as usize, name) {
        Some(next) if !loader::in_driver(next) => Answer { address: next, is_final: 1 },
        None if !loader::scope_of_has_driver_name(caller, name) => ABSENT,
        _ => {
            doors::BY_DLSYM.fetch_add(1, Relaxed);
            ours
        }
    }
}
