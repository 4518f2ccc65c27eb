//! The functions of `include/cenote.h`. The comments here are the ones there.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::memory::{self, guarded};
use super::{cenote_oom_fn, cenote_stats, devices, marks, oom, sharing};
use crate::cuda::{CuResult, DevicePtr};
use crate::preload::shared;

/// Done.
pub const CENOTE_OK: c_int = 0;
/// A null or freed pointer, a size of 0, the per-thread default stream, or a stats size that is too small.
pub const CENOTE_INVALID_VALUE: c_int = 1;
/// There is no memory, after all that could be given back was.
pub const CENOTE_OUT_OF_MEMORY: c_int = 2;
/// The driver is not loaded, or `cuInit` was not called.
pub const CENOTE_NOT_INITIALIZED: c_int = 3;
/// The process ends, or it is the forked child of one that used CUDA.
pub const CENOTE_DEINITIALIZED: c_int = 4;
/// There is no such device.
pub const CENOTE_INVALID_DEVICE: c_int = 101;
/// An internal error.
pub const CENOTE_UNKNOWN: c_int = 999;

pub(super) fn status<T>(answer: Result<T, CuResult>) -> c_int {
    answer.map_or_else(|code| code.0 as c_int, |_| CENOTE_OK)
}

/// Allocates `size` bytes of a device for work on `stream`, and writes the address to `out`; null there if it fails.
///
/// The address is a multiple of 512, and so are the bytes held. Blocks of 2 MiB and more need not begin at a multiple of 2 MiB.
/// `cenote_ipc_export` lets other processes use it; the driver's own handles of it, as `cuIpcGetMemHandle` makes, there are none.
///
/// What a captured graph uses keeps its address as long as it is not freed. A block that is freed during the capture is safe only if
/// the capture lies between `cenote_torch_begin_allocate_to_pool` and `cenote_torch_end_allocate_to_pool`.
///
/// # Safety
/// `out` is valid for the write. `stream` is a `CUstream` or `cudaStream_t` of the device's primary context, which is the one of
/// the CUDA runtime; it is not destroyed as long as the process allocates. Null is the default stream.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_alloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
    out: *mut *mut c_void,
) -> c_int {
    if out.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    let address = guarded(|| match size {
        0 => Err(CuResult::INVALID_VALUE),
        size => memory::allocate(size as u64, device, stream as usize),
    });
    // SAFETY: the caller's promise.
    unsafe { *out = address.unwrap_or(0) as *mut c_void };
    status(address)
}

/// Takes a block back. It returns at once: the memory may go to a later request on the same stream, which runs after the work that
/// uses it, and to others when that work is done. Null is fine. Any thread may free.
///
/// # Safety
/// No other stream uses the block than its own and those named by `cenote_record_use`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_free(pointer: *mut c_void) -> c_int {
    if pointer.is_null() {
        return CENOTE_OK;
    }
    status(guarded(|| memory::free(pointer as DevicePtr, 0, None)))
}

/// Says that another stream uses a block: after its free it waits for the work on that stream too.
///
/// # Safety
/// `stream` is as for `cenote_alloc`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_record_use(pointer: *mut c_void, stream: *mut c_void) -> c_int {
    status(guarded(|| memory::record_use(pointer as DevicePtr, stream as usize)))
}

/// Says that a stream is about to be destroyed: its memory goes to others when the work on it is done, and a new stream of the same
/// handle has nothing to do with it. Under the preload `cuStreamDestroy` says so itself.
///
/// # Safety
/// The stream is still there. Null, the default stream, is never destroyed.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_stream_ends(stream: *mut c_void) {
    let _ = guarded(|| {
        memory::stream_ends(stream as usize);
        Ok(())
    });
}

/// Gives back to the driver what nobody has, on all devices, after waiting for the work in flight. Returns the bytes.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_trim() -> u64 {
    let trim = || {
        sharing::settle(true);
        Ok(memory::trim())
    };
    guarded(trim).unwrap_or(0)
}

/// Writes the numbers of a device. Set `stats->size` first. All are 0 where no memory was asked of the device.
///
/// # Safety
/// `stats` is valid for the write of `stats->size` bytes.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_stats(device: c_int, stats: *mut cenote_stats) -> c_int {
    if stats.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    // SAFETY: the caller's promise; `size` comes first.
    let size = unsafe { (*stats).size }.min(size_of::<cenote_stats>());
    if size < size_of::<usize>() {
        return CENOTE_INVALID_VALUE;
    }
    let now = guarded(|| match usize::try_from(device) {
        Ok(index) if index < devices::MOST => {
            Ok(cenote_stats { size, ..cenote_stats::of(devices::device_if_used(device)) })
        }
        _ => Err(CuResult::INVALID_DEVICE),
    });
    if let Ok(now) = &now {
        let from = std::ptr::from_ref(now).cast::<u8>();
        // SAFETY: the caller's promise, and no more than the struct has here.
        unsafe { std::ptr::copy_nonoverlapping(from, stats.cast::<u8>(), size) };
    }
    status(now)
}

/// From now on the peaks of a device are those from here.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_reset_peaks(device: c_int) -> c_int {
    status(guarded(|| {
        devices::device(device)?.engine.reset_peaks();
        Ok(())
    }))
}

/// Sets the bytes that may be taken from the driver on a device; 0 for no limit. What is held beyond it stays until it is free.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_set_limit(device: c_int, bytes: u64) -> c_int {
    status(guarded(|| {
        devices::device(device)?.engine.set_limit((bytes > 0).then_some(bytes));
        Ok(())
    }))
}

/// Says that a step of the program begins, a training step for one. `name` may be null.
///
/// # Safety
/// `name` is null or a string that ends in a zero byte.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_mark(name: *const c_char) {
    let name = if name.is_null() {
        c""
    } else {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(name) }
    };
    let _ = guarded(|| {
        marks::mark(&name.to_string_lossy());
        Ok(())
    });
}

/// Sets the function that is called before a request is refused, with no lock held; null for none. As long as it returns nonzero the
/// request is tried again. A request that it makes itself is refused without calling it.
///
/// # Safety
/// The function can be called with `user` from every thread that allocates, as long as it is set and for a call that has begun.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_on_oom(callback: cenote_oom_fn, user: *mut c_void) {
    oom::set(callback, user);
}

/// Writes the report of the process now: to the file `path`, which is replaced, or to where its reports go (CENOTE_OUTPUT) if that is
/// null. The file's name goes to `written`, cut to `size` bytes with the zero at its end. There is a report of programs whose calls
/// of the driver the library sees: it is preloaded, and CUDA was used.
///
/// # Safety
/// `path` is null or a string that ends in a zero byte. `written` is null or valid for the write of `size` bytes.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_dump(
    path: *const c_char,
    written: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
    let path = path.map(|path| Path::new(OsStr::from_bytes(path.to_bytes())));
    let name = guarded(|| shared::dump(path));
    if !written.is_null() && size > 0 {
        let name = name.as_ref().map_or(&[][..], |name| name.as_os_str().as_bytes());
        let length = name.len().min(size - 1);
        // SAFETY: the caller's promise, for `length` bytes and the zero.
        unsafe { std::ptr::copy_nonoverlapping(name.as_ptr(), written.cast::<u8>(), length) };
        // SAFETY: as above.
        unsafe { *written.add(length) = 0 };
    }
    status(name)
}

/// The version of the library, such as "0.1.0".
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
