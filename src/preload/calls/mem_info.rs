//! What the program is told about free memory.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::contexts::Context;
use super::super::process::Process;
use super::super::shared;
use crate::cuda::{CuResult, real};

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
    /// Free and total memory as the program should see them: what the pools and the engine would give back counts as free, and a limit is the
    /// size of the card.
    fn seen_by_program(&self, context: &Context, free: u64, total: u64) -> (u64, u64) {
        let mut cached = shared::kept_above(context.device);
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
