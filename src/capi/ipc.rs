//! Memory that other processes and other devices reach.

use std::ffi::{c_int, c_void};

use super::api::{CENOTE_INVALID_VALUE, status};
use super::memory::guarded;
use super::{devices, sharing};
use crate::cuda::{CuResult, DevicePtr};

/// The process that a handle comes from can't be asked: it has ended, is another user's, or is in another network namespace. Or this
/// one may open no more files.
pub const CENOTE_OPERATING_SYSTEM: c_int = 304;
/// The memory that a handle names is gone: its process has freed it.
pub const CENOTE_INVALID_HANDLE: c_int = 400;
/// The driver can't give the memory to other processes.
pub const CENOTE_NOT_SUPPORTED: c_int = 801;

/// Writes a handle with which another process of the same user can open the memory that a live block lies in, by
/// `cenote_ipc_open`, and where the block begins in that memory to `offset`. The block must be freed only when no other process has
/// it open. What lies beside it in the same pages is open to them too, as with `cudaIpcGetMemHandle`.
///
/// `size` says how many bytes there is room for, and is set to those of the handle; if they are more, nothing else is written, and
/// it is `CENOTE_INVALID_VALUE`. Handles of one memory are equal, and a handle never names other memory later. The first byte of
/// all is 0xff. A thread begins with the first export; it sleeps until another process asks for the memory.
///
/// # Safety
/// `size` and `offset` are valid for the write, and `handle` for that of `*size` bytes; it may be null if they are 0.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_ipc_export(
    pointer: *const c_void,
    handle: *mut c_void,
    size: *mut usize,
    offset: *mut u64,
) -> c_int {
    if size.is_null() || offset.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    let made = guarded(|| sharing::export(pointer as DevicePtr));
    let written = made.and_then(|(bytes, begin)| {
        // SAFETY: the caller's promise.
        let room = unsafe { size.replace(bytes.len()) };
        if handle.is_null() || room < bytes.len() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the caller's promise, and no more than there is room for.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), handle.cast(), bytes.len()) };
        // SAFETY: the caller's promise.
        unsafe { *offset = begin };
        Ok(())
    });
    status(written)
}

/// Maps memory of another process, for a device of this one, and writes its address to `out`; null there if it fails. A handle that is
/// open already gives the same address.
///
/// # Safety
/// `handle` is valid for the read of `size` bytes, `out` for the write.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_ipc_open(
    handle: *const c_void,
    size: usize,
    device: c_int,
    out: *mut *mut c_void,
) -> c_int {
    if handle.is_null() || out.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(handle.cast::<u8>(), size) };
    let base = guarded(|| sharing::open(bytes, device));
    // SAFETY: the caller's promise.
    unsafe { *out = base.unwrap_or(0) as *mut c_void };
    status(base)
}

/// Takes one `cenote_ipc_open` back, by the address that it gave. It returns at once: after the last one the memory stays mapped until
/// the work that was submitted before, on all streams of the device, is done. Without the preload no stream of the device may capture
/// meanwhile.
///
/// # Safety
/// No work uses the memory that is submitted later.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_ipc_close(pointer: *mut c_void) -> c_int {
    status(guarded(|| sharing::close(pointer as DevicePtr)))
}

/// Lets another device use the memory of a device: all that the library has there, and all that it will have.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_allow_peer(device: c_int, peer: c_int) -> c_int {
    status(guarded(|| {
        let (device, other) = (devices::device(device)?, devices::device(peer)?.index as u32);
        let card = device.engine.card();
        if card.lets_in(other) {
            return Ok(());
        }
        card.let_in(other, true);
        let enabled = device.engine.enable_all().and_then(|()| sharing::let_in(card));
        // What is mapped later must not fail for it.
        enabled.inspect_err(|_| card.let_in(other, false))
    }))
}
