//! Virtual memory management: passed on and tracked by handle. Physical memory is held until its handle is released and every
//! mapping of it is gone.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use super::super::process::{Process, lock};
use crate::cuda::{AllocationProp, CuResult, DevicePtr, real};
use crate::ledger::{Block, Kind};

/// Physical memory by handle, and mappings by address.
#[derive(Debug, Default)]
pub(in super::super) struct Handles {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Block, references of the handle, mappings.
    handles: HashMap<u64, (Block, u32, u32)>,
    /// Size and handle.
    mappings: BTreeMap<DevicePtr, (u64, u64)>,
}

impl Inner {
    /// Takes the block out if nothing holds its memory any more.
    fn take_unheld(&mut self, handle: u64) -> Option<Block> {
        let &(block, references, mappings) = self.handles.get(&handle)?;
        (references == 0 && mappings == 0).then(|| self.handles.remove(&handle).map(|_| block))?
    }
}

impl Handles {
    fn created(&self, handle: u64, block: Block) -> Option<Block> {
        lock(&self.inner).handles.insert(handle, (block, 1, 0)).map(|(block, ..)| block)
    }

    fn released(&self, handle: u64) -> Option<Block> {
        let mut inner = lock(&self.inner);
        if let Some((_, references, _)) = inner.handles.get_mut(&handle) {
            *references = references.saturating_sub(1);
        }
        inner.take_unheld(handle)
    }

    fn mapped(&self, pointer: DevicePtr, bytes: u64, handle: u64) {
        let mut inner = lock(&self.inner);
        if let Some((_, _, mappings)) = inner.handles.get_mut(&handle) {
            *mappings += 1;
            inner.mappings.insert(pointer, (bytes, handle));
        }
    }

    fn unmapped(&self, pointer: DevicePtr, bytes: u64) -> Vec<Block> {
        let mut inner = lock(&self.inner);
        let range = pointer..pointer.saturating_add(bytes);
        let gone: Vec<_> =
            inner.mappings.range(range).map(|(&at, &(_, handle))| (at, handle)).collect();
        let mut blocks = Vec::new();
        for (at, handle) in gone {
            inner.mappings.remove(&at);
            if let Some((_, _, mappings)) = inner.handles.get_mut(&handle) {
                *mappings = mappings.saturating_sub(1);
            }
            blocks.extend(inner.take_unheld(handle));
        }
        blocks
    }

    /// Every block whose memory is held, with its handle.
    pub(in super::super) fn all(&self) -> Vec<(u64, Block)> {
        let inner = lock(&self.inner);
        inner.handles.iter().map(|(&handle, &(block, ..))| (handle, block)).collect()
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
    if let Some(device) = device
        && !process.take_budget(device, size)
    {
        process.refuse(context, size);
        return CuResult::OUT_OF_MEMORY;
    }
    let code = process.with_retry(context, call);
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
