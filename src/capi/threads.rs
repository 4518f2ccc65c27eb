//! What each thread keeps: its counters for each device.
//!
//! Thread-local memory holds one pointer and has no destructor, since registering one could allocate; a key of the C library
//! gives the counters back when the thread ends.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;

use once_cell::sync::OnceCell;

use super::devices::{Device, MOST};
use crate::pool::engine::Lane;

/// A thread's own.
#[derive(Default)]
struct Thread {
    lanes: [Option<Lane>; MOST],
}

thread_local! {
    static THREAD: Cell<*mut Thread> = const { Cell::new(null_mut()) };
}

/// Runs `call` with this thread's counters for a device. `call` must not come here again.
#[inline]
pub(super) fn with_lane<T>(device: &Device, call: impl FnOnce(&mut Lane) -> T) -> T {
    let thread = THREAD.get();
    // SAFETY: the pointer is null or came from `Box::into_raw` in `begin`, on this thread, and `end` clears it before it drops the
    // box. Nobody else refers to it: `call` runs the engine, which calls the driver and nothing of ours.
    if let Some(thread) = unsafe { thread.as_mut() }
        && let Some(Some(lane)) = thread.lanes.get_mut(device.index)
    {
        return call(lane);
    }
    begin(device, call)
}

#[cold]
fn begin<T>(device: &Device, call: impl FnOnce(&mut Lane) -> T) -> T {
    let mut fresh = device.engine.lane();
    let Some(key) = key() else { return call(&mut fresh) };
    let mut thread = THREAD.get();
    if thread.is_null() {
        thread = Box::into_raw(Box::default());
        THREAD.set(thread);
        // SAFETY: the key is valid. Should the C library have no memory, the counters stay when the thread ends.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
    // SAFETY: as in `with_lane`.
    let thread = unsafe { &mut *thread };
    match thread.lanes.get_mut(device.index) {
        Some(place) => call(place.insert(fresh)),
        None => call(&mut fresh),
    }
}

/// The key whose destructor gives a thread's counters back; none where the process has used up its keys.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceCell<libc::pthread_key_t> = OnceCell::new();
    let make = || {
        let mut key = 0;
        // SAFETY: `key` is valid for the write; the destructor is a function of this library, which stays loaded.
        let code = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
        if code == 0 { Ok(key) } else { Err(()) }
    };
    KEY.get_or_try_init(make).ok().copied()
}

/// # Safety
/// Called by the C library with the pointer that `begin` left, when the thread ends.
unsafe extern "C" fn end(thread: *mut c_void) {
    THREAD.set(null_mut());
    // SAFETY: the pointer came from `Box::into_raw`, and the C library passes it once.
    drop(unsafe { Box::from_raw(thread.cast::<Thread>()) });
}
