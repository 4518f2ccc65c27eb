//! The end of contexts, and their reach into each other. A context's memory goes with it, and the driver may give the same handle
//! to the next one.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::sync::MutexGuard;

use super::super::contexts::Context;
use super::super::process::{Phase, Process, lock, phase};
use crate::cuda::{ContextHandle, CuResult, real};

/// Contexts that a call is about to end, or may.
struct Endangered {
    contexts: Vec<&'static Context>,
    _alone: Vec<MutexGuard<'static, ()>>,
}

impl Endangered {
    /// Keeps everybody away from these contexts until they are known to be dead or alive: the helper thread by their lock, other
    /// threads' calls by freezing the pools. At exit a thread may be stuck in the driver for good: nobody
    /// waits for it.
    fn new(contexts: Vec<&'static Context>) -> Self {
        let wait = phase() == Phase::Awake;
        let take = |context: &&'static Context| match wait {
            true => Some(lock(&context.maintenance)),
            false => context.maintenance.try_lock().ok(),
        };
        let alone = contexts.iter().filter_map(take).collect();
        for context in &contexts {
            context.pool.freeze(true);
            context.pool.driver().set_usable(false);
        }
        Endangered { contexts, _alone: alone }
    }

    /// The call is over: what lives on may be used again.
    fn over(self) {
        for context in self.contexts.into_iter().filter(|context| context.is_alive()) {
            context.pool.driver().set_usable(true);
            context.pool.freeze(false);
        }
    }
}

pub(in super::super) unsafe fn cuCtxDestroy_v2(
    process: &'static Process,
    context: ContextHandle,
) -> CuResult {
    let endangered = Endangered::new(process.living_contexts(|other| other.handle == context));
    // SAFETY: the program's own argument.
    let code = unsafe { real::cuCtxDestroy_v2(context) };
    if code.is_ok() {
        endangered.contexts.iter().for_each(|context| process.context_died(context));
    }
    endangered.over();
    code
}

fn end_primary(
    process: &'static Process,
    device: i32,
    is_reset: bool,
    call: impl FnOnce() -> CuResult,
) -> CuResult {
    let here = |context: &Context| i64::from(context.device) == i64::from(device);
    let endangered = Endangered::new(process.living_contexts(here));
    let code = call();
    if code.is_ok() {
        process.check_contexts(&endangered.contexts, is_reset);
    }
    endangered.over();
    code
}

macro_rules! primary {
    ($($name:ident: $is_reset:literal;)*) => {$(
        pub(in super::super) unsafe fn $name(process: &'static Process, device: i32) -> CuResult {
            // SAFETY: the program's own argument.
            end_primary(process, device, $is_reset, || unsafe { real::$name(device) })
        }
    )*};
}

primary! {
    cuDevicePrimaryCtxRelease: false;
    cuDevicePrimaryCtxRelease_v2: false;
    cuDevicePrimaryCtxReset: true;
    cuDevicePrimaryCtxReset_v2: true;
}

/// From here on, work of the current context may use memory of the other one, and no event of the other one covers it: so its
/// freed memory goes straight back to the driver.
pub(in super::super) unsafe fn cuCtxEnablePeerAccess(
    process: &'static Process,
    peer: ContextHandle,
    flags: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuCtxEnablePeerAccess(peer, flags) };
    if code.is_ok() {
        process.others_may_reach(peer);
    }
    code
}

/// A green context's memory may be used from its device's primary context, of which its own events say nothing.
pub(in super::super) unsafe fn cuCtxFromGreenCtx(
    process: &'static Process,
    context: *mut ContextHandle,
    green: usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuCtxFromGreenCtx(context, green) };
    if code.is_ok() && !context.is_null() {
        // SAFETY: the driver has just written there.
        let handle = unsafe { *context };
        process.others_may_reach(handle);
        lock(&process.contexts.greens).push((green, handle));
    }
    code
}

pub(in super::super) unsafe fn cuGreenCtxDestroy(
    process: &'static Process,
    green: usize,
) -> CuResult {
    let greens = lock(&process.contexts.greens).clone();
    let is_its = |context: &Context| greens.contains(&(green, context.handle));
    let endangered = Endangered::new(process.living_contexts(is_its));
    // SAFETY: the program's own argument.
    let code = unsafe { real::cuGreenCtxDestroy(green) };
    if code.is_ok() {
        lock(&process.contexts.greens).retain(|&(other, _)| other != green);
        endangered.contexts.iter().for_each(|context| process.context_died(context));
    }
    endangered.over();
    code
}
