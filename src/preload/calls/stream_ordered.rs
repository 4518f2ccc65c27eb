//! Stream-ordered memory: passed on and tracked. Its pools have attributes, sharing and graph semantics that a pool of ours
//! would break.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::process::Process;
use super::capture::per_thread;
use super::free::free;
use super::memory::track;
use crate::cuda::{CuResult, DevicePtr, StreamHandle, real};
use crate::ledger::Kind;

/// Tracks a stream-ordered allocation, unless it becomes a node of a graph: then the address has no memory yet.
///
/// # Safety
/// As `track`.
unsafe fn allocate(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    stream: StreamHandle,
    mut call: impl FnMut() -> CuResult,
) -> CuResult {
    if process.is_capturing(stream) {
        process.events.note("graph_allocations", || {
            "allocations inside a captured graph are made by the driver at launch and are not in the numbers".to_owned()
        });
        return call();
    }
    // SAFETY: the caller's.
    unsafe { track(process, Kind::Async, pointer, bytes as u64, call) }
}

pub(in super::super) unsafe fn cuMemAllocAsync(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe {
        allocate(process, pointer, bytes, stream, || real::cuMemAllocAsync(pointer, bytes, stream))
    }
}

pub(in super::super) unsafe fn cuMemAllocAsync_ptsz(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe {
        allocate(process, pointer, bytes, per_thread(stream), || {
            real::cuMemAllocAsync_ptsz(pointer, bytes, stream)
        })
    }
}

pub(in super::super) unsafe fn cuMemAllocFromPoolAsync(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    pool: usize,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cuMemAllocFromPoolAsync(pointer, bytes, pool, stream) };
    // SAFETY: as above.
    unsafe { allocate(process, pointer, bytes, stream, call) }
}

pub(in super::super) unsafe fn cuMemAllocFromPoolAsync_ptsz(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    pool: usize,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cuMemAllocFromPoolAsync_ptsz(pointer, bytes, pool, stream) };
    // SAFETY: as above.
    unsafe { allocate(process, pointer, bytes, per_thread(stream), call) }
}

/// The driver takes a `cuMemAlloc` pointer here too; for one of ours it is a free like any other, since the context event
/// behind it covers the stream. In a capture the driver decides.
pub(in super::super) unsafe fn cuMemFreeAsync(
    process: &'static Process,
    pointer: DevicePtr,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let forward = || unsafe { real::cuMemFreeAsync(pointer, stream) };
    if process.is_capturing(stream) { forward() } else { free(process, pointer, forward) }
}

/// As [`cuMemFreeAsync`].
pub(in super::super) unsafe fn cuMemFreeAsync_ptsz(
    process: &'static Process,
    pointer: DevicePtr,
    stream: StreamHandle,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let forward = || unsafe { real::cuMemFreeAsync_ptsz(pointer, stream) };
    if process.is_capturing(per_thread(stream)) {
        forward()
    } else {
        free(process, pointer, forward)
    }
}
