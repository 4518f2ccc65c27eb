//! Allocation and free, as all entry points share them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::devices::{self, Device};
use super::threads::with_lane;
use super::{life, oom};
use crate::cuda::{CuResult, DevicePtr, Failure, StreamHandle};
use crate::preload::{shared, trace};

/// `CU_STREAM_LEGACY`: another name of stream 0.
const LEGACY: StreamHandle = 1;
/// `CU_STREAM_PER_THREAD`: another stream in each thread, so it orders nothing.
const PER_THREAD: StreamHandle = 2;
/// Sizes are counted in units of this.
const UNIT: u64 = 512;

/// Frees of pointers that are no live block.
pub(super) static INVALID_FREES: AtomicU64 = AtomicU64::new(0);

/// Runs an entry point: what panics in it is an internal error, and goes no further.
#[inline]
pub(super) fn guarded<T>(call: impl FnOnce() -> Result<T, CuResult>) -> Result<T, CuResult> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(CuResult::UNKNOWN))
}

/// A stream under the one name that the engine knows it by.
#[inline]
pub(super) fn named(stream: StreamHandle) -> Result<StreamHandle, CuResult> {
    match stream {
        LEGACY => Ok(0),
        PER_THREAD => Err(CuResult::INVALID_VALUE),
        stream => Ok(stream),
    }
}

/// Memory for work on a stream.
#[inline]
pub(super) fn allocate(
    bytes: u64,
    ordinal: i32,
    stream: StreamHandle,
) -> Result<DevicePtr, CuResult> {
    let device = devices::device(ordinal)?;
    let stream = named(stream)?;
    let pool = if device.pools.any_open() { pool(device, stream) } else { 0 };
    allocate_from(device, pool, bytes, stream)
}

/// Memory of a private pool; 0 for none.
#[inline]
pub(super) fn allocate_from(
    device: &Device,
    pool: u64,
    bytes: u64,
    stream: StreamHandle,
) -> Result<DevicePtr, CuResult> {
    let attempt = || with_lane(device, |lane| device.engine.allocate(lane, bytes, stream, pool));
    let address = match attempt() {
        Ok(address) => address,
        Err(failure) => again(device, bytes, failure, attempt)?,
    };
    trace::allocated(device.index as u32, address, bytes, stream);
    Ok(address)
}

/// The private pool that a request on a stream goes to.
#[cold]
fn pool(device: &Device, stream: StreamHandle) -> u64 {
    if device.engine.card().is_capturing(stream) { device.pools.current() } else { 0 }
}

/// Asks the program for memory, and then the engine again.
#[cold]
fn again(
    device: &Device,
    bytes: u64,
    mut failure: Failure,
    attempt: impl Fn() -> Result<DevicePtr, Failure>,
) -> Result<DevicePtr, CuResult> {
    while failure == Failure::OutOfMemory && oom::ask(device.index, bytes) {
        match attempt() {
            Ok(address) => return Ok(address),
            Err(other) => failure = other,
        }
    }
    Err(match failure {
        // The driver's own answer to a process that is about to end.
        _ if life::driver_is_gone() => CuResult::DEINITIALIZED,
        Failure::OutOfMemory => {
            shared::refused(bytes);
            CuResult::OUT_OF_MEMORY
        }
        Failure::Other(code) => code,
    })
}

/// Takes a block back. The pointer decides; `ordinal` is where it is looked for first, and `bytes`, if the caller knows, what it
/// should have.
#[inline]
pub(super) fn free(address: DevicePtr, ordinal: i32, bytes: Option<u64>) -> Result<(), CuResult> {
    if life::is_child() {
        // The parent's memory.
        return Ok(());
    }
    trace::freed(address);
    let first = devices::device_if_used(ordinal);
    if let Some(device) = first
        && let Some(held) = give_back(device, address)
    {
        compare(device, held, bytes);
        return Ok(());
    }
    free_elsewhere(address, bytes)
}

/// A free of memory that is not on the device that was named.
#[cold]
fn free_elsewhere(address: DevicePtr, bytes: Option<u64>) -> Result<(), CuResult> {
    match devices::all().find_map(|device| Some((device, give_back(device, address)?))) {
        Some((device, held)) => {
            compare(device, held, bytes);
            Ok(())
        }
        None => {
            INVALID_FREES.fetch_add(1, Relaxed);
            Err(CuResult::INVALID_VALUE)
        }
    }
}

#[inline]
fn give_back(device: &Device, address: DevicePtr) -> Option<u64> {
    with_lane(device, |lane| device.engine.free(lane, address)).ok()
}

#[inline]
fn compare(device: &Device, held: u64, said: Option<u64>) {
    // A request that would have been refused was not rounded up.
    let exact = |said: u64| said.max(1).checked_next_multiple_of(UNIT);
    let is = |said: u64| exact(said) == Some(held) || device.engine.block_bytes(said) == Some(held);
    if said.is_some_and(|said| !is(said)) {
        device.size_mismatches.fetch_add(1, Relaxed);
    }
}

/// Another stream than its own uses a block.
pub(super) fn record_use(address: DevicePtr, stream: StreamHandle) -> Result<(), CuResult> {
    let stream = named(stream)?;
    let found = devices::all().any(|device| {
        device.engine.card().learn(stream);
        device.engine.record_use(address, stream).is_ok()
    });
    if !found {
        return Err(CuResult::INVALID_VALUE);
    }
    trace::used(address);
    Ok(())
}

/// A stream is about to be destroyed: its memory goes to others when the work on it is done.
pub(super) fn stream_ends(stream: StreamHandle) {
    if let Ok(stream) = named(stream)
        && stream != 0
        && !life::driver_is_gone()
    {
        devices::all().for_each(|device| device.engine.forget_stream(stream));
    }
}

/// Bytes of a device that nobody has.
pub(super) fn idle_bytes(device: u32) -> u64 {
    devices::device_if_used(device as i32).map_or(0, |device| device.engine.idle_bytes())
}

/// Gives back what nobody has on a device. Returns the bytes.
pub(super) fn trim_device(device: u32) -> u64 {
    let device = devices::device_if_used(device as i32).filter(|_| !life::driver_is_gone());
    device.map_or(0, |device| device.engine.trim())
}

/// Gives back what nobody has, on all devices. Returns the bytes.
pub(super) fn trim() -> u64 {
    if life::driver_is_gone() {
        return 0;
    }
    devices::all().map(|device| device.engine.trim()).sum()
}
