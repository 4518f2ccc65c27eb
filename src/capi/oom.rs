//! The program's last word before a request is refused.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// Called before a request is refused: with the device, the bytes that were asked for, and the pointer given to `cenote_on_oom`.
/// It may free memory, by `cenote_free` too. Nonzero: something was freed, try again. 0: give up. It must return: no exception, no
/// `longjmp`.
#[allow(non_camel_case_types, reason = "the name in the header")]
pub type cenote_oom_fn =
    Option<unsafe extern "C" fn(device: c_int, size: usize, user: *mut c_void) -> c_int>;

#[derive(Clone, Copy)]
struct Callback {
    function: unsafe extern "C" fn(c_int, usize, *mut c_void) -> c_int,
    user: *mut c_void,
}

// SAFETY: the header says that the callback is called from any thread with `user`, which is never looked into here.
unsafe impl Send for Callback {}

static CALLBACK: Mutex<Option<Callback>> = Mutex::new(None);

thread_local! {
    /// Set while this thread is in the callback: a request of the callback's own is refused without asking it.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Sets the callback, or takes it away.
pub(super) fn set(function: cenote_oom_fn, user: *mut c_void) {
    let callback = function.map(|function| Callback { function, user });
    *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner) = callback;
}

/// Asks the program to free something. Whether it did.
pub(super) fn ask(device: usize, bytes: u64) -> bool {
    let callback = *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Callback { function, user }) = callback else { return false };
    if ASKING.replace(true) {
        return false;
    }
    // SAFETY: whoever set the callback promised that it can be called so, from any thread.
    let answer = unsafe { function(device as c_int, bytes as usize, user) };
    ASKING.set(false);
    answer != 0
}
