//! Private pools of the C API: memory apart from all other, for captured graphs.

use std::ffi::{c_int, c_void};

use super::api::{CENOTE_INVALID_VALUE, status};
use super::devices;
use super::memory::{self, guarded, named};
use super::threads::with_lane;
use crate::cuda::{CuResult, DevicePtr};

/// Makes a private pool on a device, for `cenote_pool_alloc`, and returns its number; 0 where there is no such device.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_pool_make(device: c_int) -> u64 {
    guarded(|| Ok(devices::device(device)?.pools.number())).unwrap_or(0)
}

/// Allocates from a private pool, as `cenote_alloc` does otherwise. Its memory keeps its address, and goes to nobody else until the
/// pool is given up: a graph that was captured with it may be launched on any stream. Pool 0 is none.
///
/// # Safety
/// As for `cenote_alloc`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_pool_alloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
    pool: u64,
    out: *mut *mut c_void,
) -> c_int {
    if out.is_null() {
        return CENOTE_INVALID_VALUE;
    }
    let address = guarded(|| match size {
        0 => Err(CuResult::INVALID_VALUE),
        size => {
            let device = devices::device(device)?;
            memory::allocate_from(device, pool, size as u64, named(stream as usize)?)
        }
    });
    // SAFETY: the caller's promise.
    unsafe { *out = address.unwrap_or(0) as *mut c_void };
    status(address)
}

/// Makes a block live again at the address that it had in a private pool: for a program that goes back to an earlier state of its
/// captured graphs. `bytes` is what the block had then, and `size` what was asked for (`cenote_block_size`). It fails where the memory is not free.
///
/// # Safety
/// As for `cenote_alloc`. `pointer` came from `cenote_pool_alloc` with the same pool.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_pool_alloc_at(
    pointer: *mut c_void,
    bytes: usize,
    size: usize,
    device: c_int,
    pool: u64,
) -> c_int {
    status(guarded(|| {
        let device = devices::device(device)?;
        let address = pointer as DevicePtr;
        let again = with_lane(device, |lane| {
            device.engine.allocate_at(lane, address, (bytes as u64, size as u64), pool)
        });
        again.map_err(|_| CuResult::INVALID_VALUE)
    }))
}

/// Gives a private pool up: nothing is captured with it any more, and no graph of it is launched. What is free of it goes to others
/// when the work that was submitted is done; what lives stays until it is freed.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_pool_end(device: c_int, pool: u64) -> c_int {
    status(guarded(|| {
        if pool == 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        devices::device(device)?.engine.forget_pool(pool);
        Ok(())
    }))
}
