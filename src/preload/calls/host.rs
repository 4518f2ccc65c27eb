//! Pinned host memory: passed on and tracked.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::process::Process;
use crate::cuda::{CuResult, real};
use crate::ledger::Kind;

/// # Safety
/// `pointer` is null or valid for a read after a successful call.
unsafe fn track(
    process: &'static Process,
    pointer: *mut usize,
    bytes: usize,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let code = call();
    if code.is_ok() && !pointer.is_null() {
        let home = process.context().map_or(u64::MAX, |context| context.index);
        let block = process.block(Kind::Host, 0, bytes as u64, home);
        // SAFETY: the driver has just written there.
        process.learn(unsafe { *pointer } as u64, block);
    }
    code
}

pub(in super::super) unsafe fn cuMemHostAlloc(
    process: &'static Process,
    pointer: *mut usize,
    bytes: usize,
    flags: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe { track(process, pointer, bytes, || real::cuMemHostAlloc(pointer, bytes, flags)) }
}

pub(in super::super) unsafe fn cuMemAllocHost_v2(
    process: &'static Process,
    pointer: *mut usize,
    bytes: usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe { track(process, pointer, bytes, || real::cuMemAllocHost_v2(pointer, bytes)) }
}

pub(in super::super) unsafe fn cuMemFreeHost(
    process: &'static Process,
    pointer: usize,
) -> CuResult {
    let block = process.live.remove(pointer as u64);
    // SAFETY: the program's own argument.
    process.forward_free(pointer as u64, block, || unsafe { real::cuMemFreeHost(pointer) })
}
