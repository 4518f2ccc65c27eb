//! What lies where: the size of a block, how memory is used, and all blocks.

use std::ffi::{c_int, c_void};

use super::api::{CENOTE_INVALID_VALUE, status};
use super::memory::guarded;
use super::{cenote_block, cenote_usage, devices};
use crate::cuda::{CuResult, DevicePtr};

/// Called for each block, with the pointer given to `cenote_blocks`. It may call any function of the library.
#[allow(non_camel_case_types, reason = "the name in the header")]
pub type cenote_block_fn =
    Option<unsafe extern "C" fn(block: *const cenote_block, user: *mut c_void)>;

/// Bytes of a live block, by the address that it was given out with, to `bytes`; and what was asked for to `requested`.
///
/// # Safety
/// `bytes` and `requested` are null or valid for the write.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_block_size(
    pointer: *const c_void,
    bytes: *mut u64,
    requested: *mut u64,
) -> c_int {
    let found = guarded(|| {
        let sizes = devices::all().map(|device| device.engine.size_of(pointer as DevicePtr));
        sizes.into_iter().find_map(Result::ok).ok_or(CuResult::INVALID_VALUE)
    });
    if let Ok(sizes) = found {
        for (to, size) in [(bytes, sizes.0), (requested, sizes.1)] {
            if !to.is_null() {
                // SAFETY: the caller's promise.
                unsafe { *to = size };
            }
        }
    }
    status(found)
}

/// Writes how the memory of a device is used at the moment. Set `usage->size` first. It looks at all free blocks, so it is not for
/// every step of a program that has very many. All are 0 where no memory was asked of the device.
///
/// # Safety
/// `usage` is valid for the write of `usage->size` bytes.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_usage(device: c_int, usage: *mut cenote_usage) -> c_int {
    if usage.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    // SAFETY: the caller's promise; `size` comes first.
    let size = unsafe { (*usage).size }.min(size_of::<cenote_usage>());
    if size < size_of::<usize>() {
        return CENOTE_INVALID_VALUE;
    }
    let now = guarded(|| {
        let used = devices::device_if_used(device).map(cenote_usage::of);
        Ok(cenote_usage { size, ..used.unwrap_or_default() })
    });
    if let Ok(now) = &now {
        let from = std::ptr::from_ref(now).cast::<u8>();
        // SAFETY: the caller's promise, and no more than the struct has here.
        unsafe { std::ptr::copy_nonoverlapping(from, usage.cast::<u8>(), size) };
    }
    status(now)
}

/// Calls a function for each block of a device that has memory: for blocks that lie side by side in the order of their addresses,
/// group after group. They are as they were at one moment or another of the call; no lock is held.
///
/// # Safety
/// `each` can be called with `user`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_blocks(
    device: c_int,
    each: cenote_block_fn,
    user: *mut c_void,
) -> c_int {
    let Some(each) = each else { return CENOTE_INVALID_VALUE };
    let views =
        guarded(|| Ok(devices::device_if_used(device).map(|device| device.engine.blocks())));
    for view in views.iter().flatten().flatten() {
        let block = cenote_block::from(*view);
        // SAFETY: the caller's promise.
        unsafe { each(&block, user) };
    }
    status(views)
}
