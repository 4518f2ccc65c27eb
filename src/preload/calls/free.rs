//! Frees: who owns the address decides where they go, whatever the present configuration. And the account of a wrong one.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::process::{Process, lock};
use super::super::{stack, trace};
use crate::cuda::{CuResult, DevicePtr, real};
use crate::ledger::{Block, EventKind, Happening, Kind};
use crate::pool::WrongFree;

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
    let block = process.live.remove(address);
    if block.is_some() {
        trace::freed(address);
    }
    match block {
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
            // A slot that was never handed out has no first free.
            let helps = !process.settings.free_stacks && allocated_by != 0;
            let hint = if helps { "; free_stacks:true shows where first" } else { "" };
            let text = format!("{address:#x} was freed twice{hint}");
            (EventKind::DoubleFree, allocated_by, freed_by, text)
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
