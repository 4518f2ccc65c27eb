//! `cuMemAlloc`, `cuMemFree` and their kin: what the pool serves, and what is only tracked.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::sync::atomic::Ordering::Relaxed;

use super::super::contexts::Context;
use super::super::process::{Phase, Process, lock, phase};
use super::super::stack;
use crate::cuda::{CuResult, DevicePtr, Failure, real};
use crate::ledger::{Block, EventKind, Happening, Kind};
use crate::pool::WrongFree;

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

pub(in super::super) unsafe fn cuMemFree_v2(
    process: &'static Process,
    pointer: DevicePtr,
) -> CuResult {
    // SAFETY: the program's own argument.
    free(process, pointer, || unsafe { real::cuMemFree_v2(pointer) })
}

/// Frees an address whose owner decides where it goes; `forward` is the driver's way.
pub(super) fn free(
    process: &'static Process,
    address: DevicePtr,
    forward: impl FnOnce() -> CuResult,
) -> CuResult {
    if address == 0 {
        return forward();
    }
    match process.live.remove(address) {
        Some(block) if block.kind == Kind::Pooled => free_pooled(process, address, block),
        Some(block) => process.forward_free(address, Some(block), forward),
        None => match wrong_free(process, address) {
            Some(code) => code,
            None => forward(),
        },
    }
}

fn free_pooled(process: &'static Process, address: DevicePtr, block: Block) -> CuResult {
    process.forget(&block);
    let Some(context) = process.contexts.at(block.home) else { return CuResult::SUCCESS };
    match context.pool.free(address, process.free_tag()) {
        Ok(()) => CuResult::SUCCESS,
        // The ledger gave the block out for free, so only a dead context can refuse it.
        Err(_) => CuResult::INVALID_VALUE,
    }
}

/// The answer to a free of an address that is not live: none if no pool knows it, since then it is the driver's business.
fn wrong_free(process: &'static Process, address: DevicePtr) -> Option<CuResult> {
    let contexts = process.contexts.all_living();
    let wrong = contexts.iter().find_map(|context| context.pool.check_free(address))?;
    let (kind, allocated_by, freed_by, text) = match wrong {
        WrongFree::Unknown => {
            (EventKind::DoubleFree, 0, 0, format!("{address:#x} is freed twice at once"))
        }
        WrongFree::Twice { allocated_by, freed_by } => {
            (EventKind::DoubleFree, allocated_by, freed_by, format!("{address:#x} was freed twice"))
        }
        WrongFree::Interior { block, allocated_by } => {
            let text = format!("{address:#x} was freed: it lies in the block at {block:#x}");
            (EventKind::InteriorFree, allocated_by, 0, text)
        }
    };
    let mut event = Happening::new(kind, process.age_ns(), text);
    event.address = Some(address);
    event.stack = stack::walk();
    if let Some(site) = allocated_by.checked_sub(1) {
        event.allocated_at = process.sites().slot(site as u32).frames();
    }
    event.freed_at = lock(&process.free_stacks).get(&freed_by).cloned().unwrap_or_default();
    process.events.happened(event);
    Some(CuResult::INVALID_VALUE)
}

pub(in super::super) unsafe fn cuMemGetInfo_v2(
    process: &'static Process,
    free: *mut usize,
    total: *mut usize,
) -> CuResult {
    let (mut driver_free, mut driver_total) = (0, 0);
    // SAFETY: both are valid for the write.
    let code = unsafe { real::cuMemGetInfo_v2(&mut driver_free, &mut driver_total) };
    let context =
        process.context().filter(|_| code.is_ok() && !(free.is_null() && total.is_null()));
    let Some(context) = context else {
        // SAFETY: the program's own arguments; the driver answers for them.
        return unsafe { real::cuMemGetInfo_v2(free, total) };
    };
    process.take_sample(context.device, driver_free as u64, driver_total as u64);
    let (seen_free, seen_total) =
        process.seen_by_program(context, driver_free as u64, driver_total as u64);
    if !free.is_null() {
        // SAFETY: the program's output, not null.
        unsafe { *free = seen_free as usize };
    }
    if !total.is_null() {
        // SAFETY: as above.
        unsafe { *total = seen_total as usize };
    }
    CuResult::SUCCESS
}

impl Process {
    /// Free and total memory as the program should see them: what the pools would give back counts as free, and a limit is the
    /// size of the card.
    fn seen_by_program(&self, context: &Context, free: u64, total: u64) -> (u64, u64) {
        let mut cached = 0;
        self.contexts.each_living(|other| {
            if other.device == context.device {
                cached += other.pool.reclaimable_bytes();
            }
        });
        let free = free.saturating_add(cached).min(total);
        let Some(limit) = self.budget(context.device).limit() else { return (free, total) };
        let held = self.budget(context.device).taken().saturating_sub(cached);
        let total = limit.min(total);
        (free.min(total.saturating_sub(held)), total)
    }
}
