//! Virtual memory management: passed on and tracked by handle. Physical memory is held until its handle is released and every
//! mapping of it is gone.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use super::super::process::{Process, lock};
use crate::cuda::{AllocationProp, CuResult, DevicePtr, real};
use crate::ledger::{Block, Kind};

/// Physical memory and its mappings.
#[derive(Debug, Default)]
pub(in super::super) struct Handles {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The memory that a handle stands for. The driver may give a handle's value again while a mapping still holds the memory that
    /// it stood for, so memory has a number of its own.
    handles: HashMap<u64, u64>,
    memory: HashMap<u64, Memory>,
    /// Size and memory.
    mappings: BTreeMap<DevicePtr, (u64, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Memory {
    block: Block,
    has_handle: bool,
    mappings: u32,
}

impl Inner {
    /// Takes the block out if nothing holds its memory any more.
    fn take_unheld(&mut self, number: u64) -> Option<Block> {
        let memory = self.memory.get(&number)?;
        let is_held = memory.has_handle || memory.mappings > 0;
        if is_held { None } else { self.memory.remove(&number).map(|memory| memory.block) }
    }
}

impl Handles {
    pub(in super::super) fn created(&self, handle: u64, block: Block) -> Option<Block> {
        let mut inner = lock(&self.inner);
        let number = inner.next;
        inner.next += 1;
        inner.memory.insert(number, Memory { block, has_handle: true, mappings: 0 });
        // A handle that we still know was released in a way that nobody saw.
        let stale = inner.handles.insert(handle, number)?;
        if let Some(memory) = inner.memory.get_mut(&stale) {
            memory.has_handle = false;
        }
        inner.take_unheld(stale)
    }

    pub(in super::super) fn released(&self, handle: u64) -> Option<Block> {
        let mut inner = lock(&self.inner);
        let number = inner.handles.remove(&handle)?;
        if let Some(memory) = inner.memory.get_mut(&number) {
            memory.has_handle = false;
        }
        inner.take_unheld(number)
    }

    fn mapped(&self, pointer: DevicePtr, bytes: u64, handle: u64) {
        let mut inner = lock(&self.inner);
        let Some(&number) = inner.handles.get(&handle) else { return };
        if let Some(memory) = inner.memory.get_mut(&number) {
            memory.mappings += 1;
            inner.mappings.insert(pointer, (bytes, number));
        }
    }

    fn unmapped(&self, pointer: DevicePtr, bytes: u64) -> Vec<Block> {
        let mut inner = lock(&self.inner);
        let range = pointer..pointer.saturating_add(bytes);
        let gone: Vec<_> =
            inner.mappings.range(range).map(|(&at, &(_, number))| (at, number)).collect();
        let mut blocks = Vec::new();
        for (at, number) in gone {
            inner.mappings.remove(&at);
            if let Some(memory) = inner.memory.get_mut(&number) {
                memory.mappings = memory.mappings.saturating_sub(1);
            }
            blocks.extend(inner.take_unheld(number));
        }
        blocks
    }

    /// Every block whose memory is held, with a number.
    pub(in super::super) fn all(&self) -> Vec<(u64, Block)> {
        let inner = lock(&self.inner);
        inner.memory.iter().map(|(&number, memory)| (number, memory.block)).collect()
    }
}

pub(in super::super) unsafe fn cuMemCreate(
    process: &'static Process,
    handle: *mut u64,
    bytes: usize,
    properties: *const AllocationProp,
    flags: u64,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cuMemCreate(handle, bytes, properties, flags) };
    if handle.is_null() || properties.is_null() {
        return call();
    }
    // SAFETY: not null, and the driver reads it too.
    let device = unsafe { *properties }.device();
    let context = process.context().filter(|context| Some(context.device) == device);
    let size = bytes as u64;
    if let Some(device) = device {
        process.first_sight(device);
    }
    if let Some(device) = device
        && !process.take_budget(device, size)
    {
        process.refuse(context, size);
        return CuResult::OUT_OF_MEMORY;
    }
    let code = match device {
        Some(device) => process.with_retry(device, call),
        None => call(),
    };
    if !code.is_ok() {
        if let Some(device) = device {
            process.budget(device).put_back(size);
            if code == CuResult::OUT_OF_MEMORY {
                process.refuse(context, size);
            }
        }
        return code;
    }
    let kind = if device.is_some() { Kind::Vmm } else { Kind::Host };
    let block = process.block(kind, device.unwrap_or(0), size, 0);
    process.count(&block);
    // SAFETY: the driver has just written there.
    if let Some(overwritten) = process.handles.created(unsafe { *handle }, block) {
        process.forget(&overwritten);
    }
    if let Some(device) = device.filter(|_| context.is_some()) {
        process.sample(device);
    }
    code
}

pub(in super::super) unsafe fn cuMemRelease(process: &'static Process, handle: u64) -> CuResult {
    // The handle's value may be given again as soon as the driver has it back.
    let block = process.handles.released(handle);
    if let Some(block) = &block {
        process.forget(block);
    }
    // SAFETY: the program's own argument.
    unsafe { real::cuMemRelease(handle) }
}

pub(in super::super) unsafe fn cuMemMap(
    process: &'static Process,
    pointer: DevicePtr,
    bytes: usize,
    offset: usize,
    handle: u64,
    flags: u64,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuMemMap(pointer, bytes, offset, handle, flags) };
    if code.is_ok() {
        process.handles.mapped(pointer, bytes as u64, handle);
    }
    code
}

pub(in super::super) unsafe fn cuMemUnmap(
    process: &'static Process,
    pointer: DevicePtr,
    bytes: usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuMemUnmap(pointer, bytes) };
    if code.is_ok() {
        process
            .handles
            .unmapped(pointer, bytes as u64)
            .iter()
            .for_each(|block| process.forget(block));
    }
    code
}
