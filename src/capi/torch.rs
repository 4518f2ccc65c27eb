//! The functions that PyTorch's `CUDAPluggableAllocator` takes, of versions 2.6 to 2.11.
//!
//! | setter in Python | function here |
//! | --- | --- |
//! | constructor | [`cenote_torch_alloc_or_throw`] or [`cenote_torch_alloc`], [`cenote_torch_free`] |
//! | `set_init_fn` | [`cenote_torch_init`] |
//! | `set_reset_fn` | [`cenote_torch_reset`] |
//! | `set_memory_fraction_fn` | [`cenote_torch_memory_fraction`] |
//! | `set_base_alloc_fn` | [`cenote_torch_base_alloc`] |
//! | `set_record_stream_fn` | [`cenote_torch_record_stream`] |
//! | `set_begin_allocate_to_pool` | [`cenote_torch_begin_allocate_to_pool`] |
//! | `set_end_allocate_to_pool_fn` | [`cenote_torch_end_allocate_to_pool`] |
//! | `set_release_pool` | [`cenote_torch_release_pool`] |

use std::ffi::{c_double, c_int, c_void};

use super::api::status;
use super::memory::{self, guarded};
use super::{devices, life};
use crate::cuda::{CuResult, DevicePtr, loader};
use crate::preload::shared;

/// Memory for a tensor: at least `size` bytes of a device, for work on `stream`. Null where there is none, and for size 0.
///
/// # Safety
/// `stream` is as for `cenote_alloc`.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_torch_alloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    if size == 0 {
        return std::ptr::null_mut();
    }
    let address = guarded(|| memory::allocate(size as u64, device, stream as usize));
    address.unwrap_or(0) as *mut c_void
}

/// As `cenote_torch_alloc`, but throws C++'s `std::bad_alloc` where there is no memory: PyTorch takes a null for a tensor at address 0,
/// and makes a `RuntimeError` of this. Null if the process has no C++ library.
///
/// # Safety
/// As for `cenote_torch_alloc`; the caller lets a C++ exception through.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cenote_torch_alloc_or_throw(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let address = unsafe { cenote_torch_alloc(size, device, stream) };
    if address.is_null()
        && size > 0
        && let Some(throw) = loader::cplusplus_function(c"_ZSt17__throw_bad_allocv")
    {
        // SAFETY: libstdc++'s function of that name has this type. Nothing here has to be dropped when it unwinds.
        let throw: extern "C-unwind" fn() -> ! = unsafe { std::mem::transmute(throw) };
        throw();
    }
    address
}

/// Takes a tensor's memory back. The pointer decides; a size that differs from the allocation's is counted, the stream is ignored.
///
/// # Safety
/// No work uses the memory but on the stream that it was allocated for, and on those that were recorded.
#[allow(unused_variables, reason = "what PyTorch passes")]
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_torch_free(
    pointer: *mut c_void,
    size: usize,
    device: c_int,
    stream: *mut c_void,
) {
    if !pointer.is_null() {
        let _ = guarded(|| memory::free(pointer as DevicePtr, device, Some(size as u64)));
    }
}

/// Puts cenote in the place of PyTorch's allocator, as `torch:adapter` does; no pluggable allocator is needed then. It may be called
/// before or after the first use of CUDA: what PyTorch's own allocator gave out, it takes back. 0 also if the adapter is there
/// already; `CENOTE_NOT_INITIALIZED` if PyTorch is not loaded, `CENOTE_INVALID_VALUE` if the environment forbids it; else it can't be
/// built or opened, and why is said on stderr. The library has to be preloaded.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_adapter() -> c_int {
    status(guarded(shared::install_torch_adapter))
}

/// PyTorch sets CUDA up. Nothing to do: engines are made when memory is asked for.
#[allow(unused_variables, reason = "what PyTorch passes")]
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_init(device_count: c_int) {}

/// `torch.cuda.empty_cache()`: gives back what nobody has.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_reset() {
    let _ = guarded(|| Ok(memory::trim()));
}

/// `torch.cuda.set_per_process_memory_fraction()`: the limit as a share of the device's memory.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_memory_fraction(fraction: c_double, device: c_int) {
    let _ = guarded(|| {
        let device = devices::device(device)?;
        if !(0.0..=1.0).contains(&fraction) {
            return Err(CuResult::INVALID_VALUE);
        }
        device.engine.set_limit(Some((device.total as f64 * fraction) as u64));
        Ok(())
    });
}

/// The range of physical memory that a tensor lies in: returns where it begins, and writes its bytes to `size`.
///
/// # Safety
/// `size` is null or valid for the write.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_torch_base_alloc(
    pointer: *mut c_void,
    size: *mut usize,
) -> *mut c_void {
    let range = guarded(|| {
        let ranges = devices::all().map(|device| device.engine.card().range(pointer as DevicePtr));
        ranges.into_iter().find_map(Result::ok).ok_or(CuResult::INVALID_VALUE)
    });
    let Ok((base, bytes)) = range else { return pointer };
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *size = bytes as usize };
    }
    base as *mut c_void
}

/// `tensor.record_stream()`: another stream uses the memory, so after its free it waits for that stream's work too.
///
/// # Safety
/// `stream` is a stream of the primary context of the memory's device.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub unsafe extern "C" fn cenote_torch_record_stream(pointer: *mut c_void, stream: *mut c_void) {
    let _ = guarded(|| memory::record_use(pointer as DevicePtr, stream as usize));
}

/// A capture begins whose memory belongs to the pool of that name. PyTorch's filter, a C++ object, is not called: it tells whether a
/// stream takes part in the capture, and the driver tells that too.
#[allow(unused_variables, reason = "what PyTorch passes")]
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_begin_allocate_to_pool(
    device: c_int,
    first: u64,
    second: u64,
    filter: *mut c_void,
) {
    let _ = guarded(|| {
        devices::device(device)?.pools.begin((first, second));
        Ok(())
    });
}

/// The capture has ended.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_end_allocate_to_pool(device: c_int, first: u64, second: u64) {
    let _ = guarded(|| {
        devices::device(device)?.pools.end((first, second));
        Ok(())
    });
}

/// A graph is gone that used the pool.
#[cfg_attr(feature = "doors", unsafe(no_mangle))]
pub extern "C" fn cenote_torch_release_pool(device: c_int, first: u64, second: u64) {
    let _ = guarded(|| {
        if !life::is_child() {
            let device = devices::device(device)?;
            if let Some(number) = device.pools.release((first, second)) {
                device.engine.forget_pool(number);
            }
        }
        Ok(())
    });
}
