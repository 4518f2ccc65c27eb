//! `cuMemAlloc` and its kin: what the pool serves, and what is only tracked.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::sync::atomic::Ordering::Relaxed;

use super::super::contexts::Context;
use super::super::process::{Phase, Process, phase};
use super::super::{shared, trace};
use crate::cuda::{CuResult, DevicePtr, Failure, real};
use crate::ledger::{Block, Kind};

pub(in super::super) unsafe fn cuMemAlloc_v2(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let direct = || unsafe { real::cuMemAlloc_v2(pointer, bytes) };
    let context = process.context();
    let Some(context) = context.filter(|_| bytes > 0 && !pointer.is_null()) else {
        return direct();
    };
    if !process.pools() || phase() != Phase::Awake {
        // SAFETY: `pointer` is not null, and the driver writes to it.
        return unsafe { track(process, Kind::Direct, pointer, bytes as u64, direct) };
    }
    match allocate(process, context, bytes as u64) {
        Ok(address) => {
            // SAFETY: the program's output, checked not to be null.
            unsafe { *pointer = address };
            CuResult::SUCCESS
        }
        Err(code) => {
            // SAFETY: as above.
            unsafe { *pointer = 0 };
            code
        }
    }
}

fn allocate(
    process: &'static Process,
    context: &'static Context,
    bytes: u64,
) -> Result<DevicePtr, CuResult> {
    // What can never be had is no reason to give everything back.
    if process.budget(context.device).limit().is_some_and(|limit| bytes > limit) {
        process.refuse(Some(context), bytes);
        return Err(CuResult::OUT_OF_MEMORY);
    }
    let block = process.block(Kind::Pooled, context.device, bytes, context.index);
    let mut answer = context.pool.allocate(bytes, u64::from(block.site) + 1);
    let refused = answer == Err(Failure::OutOfMemory) && !context.pool.is_capturing();
    if refused {
        // Whatever it answers: another thread may have given back meanwhile.
        process.release_device(context.device);
        answer = context.pool.allocate(bytes, u64::from(block.site) + 1);
        if answer == Err(Failure::OutOfMemory) && shared::trim_above(context.device) {
            answer = context.pool.allocate(bytes, u64::from(block.site) + 1);
        }
    }
    match answer {
        Ok(address) => {
            process.learn(address, block);
            process.sample_after_growth(context);
            Ok(address)
        }
        Err(Failure::Other(code)) => Err(code),
        Err(Failure::OutOfMemory) => {
            process.refuse(Some(context), bytes);
            Err(CuResult::OUT_OF_MEMORY)
        }
    }
}

impl Process {
    /// Asks the driver what is used when the device's pools have grown since the last time; never on a hit. Only in the first
    /// second, for programs that are gone before the helper thread asks.
    fn sample_after_growth(&self, context: &Context) {
        if self.age_ms() > 1000 {
            return;
        }
        let pool = &self.books.device(context.device).pool;
        let (grown, seen) =
            (pool.driver_allocations.load(Relaxed), &self.sampler(context.device).grown);
        if seen.load(Relaxed) != grown {
            seen.store(grown, Relaxed);
            self.sample(context.device);
        }
    }
}

/// Lets the driver allocate, within the budget, and tracks what it gave.
///
/// # Safety
/// `pointer` is null or valid for a write, and `call` writes the address to it.
pub(super) unsafe fn track(
    process: &'static Process,
    kind: Kind,
    pointer: *mut DevicePtr,
    bytes: u64,
    call: impl FnMut() -> CuResult,
) -> CuResult {
    let context = process.context();
    let device = context.map_or(0, |context| context.device);
    if pointer.is_null() || context.is_none() {
        let mut call = call;
        return call();
    }
    if !process.take_budget(device, bytes) {
        process.refuse(context, bytes);
        // SAFETY: checked not to be null.
        unsafe { *pointer = 0 };
        return CuResult::OUT_OF_MEMORY;
    }
    let code = process.with_retry(device, call);
    if !code.is_ok() {
        process.budget(device).put_back(bytes);
        if code == CuResult::OUT_OF_MEMORY {
            process.refuse(context, bytes);
        }
        return code;
    }
    // SAFETY: the driver has just written there.
    let address = unsafe { *pointer };
    let block = process.block(kind, device, bytes, context.map_or(0, |context| context.index));
    process.learn(address, block);
    if phase() == Phase::Awake {
        process.sample(device);
    }
    code
}

pub(in super::super) unsafe fn cuMemAllocPitch_v2(
    process: &'static Process,
    pointer: *mut DevicePtr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let direct = || unsafe { real::cuMemAllocPitch_v2(pointer, pitch, width, height, element) };
    // Only the driver knows the pitch: the budget is asked for the least that it can take, and for the rest after.
    let least = (width as u64).saturating_mul(height as u64);
    // SAFETY: as required by `track`.
    let code = unsafe { track(process, Kind::Direct, pointer, least, direct) };
    if !code.is_ok() || pitch.is_null() || pointer.is_null() {
        return code;
    }
    // SAFETY: the driver has just written both.
    let (address, whole) = unsafe { (*pointer, (*pitch as u64).saturating_mul(height as u64)) };
    let Some(block) = process.live.remove(address) else { return code };
    trace::freed(address);
    process.uncount(&block);
    let context = process.context();
    if !process.take_budget(block.device, whole) {
        // SAFETY: nobody but us has seen the address yet.
        unsafe {
            real::cuMemFree_v2(address);
            *pointer = 0;
        }
        process.refuse(context, whole);
        return CuResult::OUT_OF_MEMORY;
    }
    process.relearn(address, Block { bytes: whole, ..block });
    code
}

pub(in super::super) unsafe fn cuMemAllocManaged(
    process: &'static Process,
    pointer: *mut DevicePtr,
    bytes: usize,
    flags: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let direct = || unsafe { real::cuMemAllocManaged(pointer, bytes, flags) };
    // SAFETY: as required by `track`.
    unsafe { track(process, Kind::Managed, pointer, bytes as u64, direct) }
}
