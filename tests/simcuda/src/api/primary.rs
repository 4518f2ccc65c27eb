//! Primary contexts.

use crate::abi::Out;
use crate::code::Outcome;
use crate::gate::exports;
use crate::state::{self, Machine};

exports! {
    [Init] cuDevicePrimaryCtxRetain as "cuDevicePrimaryCtxRetain" 7000 (
        context: Out<u64>, device: i32
    ) {
        let mut machine = state::lock()?;
        let device = machine.device(device)?;
        context.required()?;
        context.set(machine.contexts.retain_primary(device))
    }

    [Init] cuDevicePrimaryCtxRelease as "cuDevicePrimaryCtxRelease" 7000 (device: i32) {
        release(device)
    }

    [Init] cuDevicePrimaryCtxRelease_v2 as "cuDevicePrimaryCtxRelease" 11000 (device: i32) {
        release(device)
    }

    [Init] cuDevicePrimaryCtxReset as "cuDevicePrimaryCtxReset" 7000 (device: i32) {
        reset(device)
    }

    [Init] cuDevicePrimaryCtxReset_v2 as "cuDevicePrimaryCtxReset" 11000 (device: i32) {
        reset(device)
    }

    [Init] cuDevicePrimaryCtxGetState as "cuDevicePrimaryCtxGetState" 7000 (
        device: i32, flags: Out<u32>, active: Out<i32>
    ) {
        let machine = state::lock()?;
        let device = machine.device(device)?;
        flags.set_if_wanted(0);
        active.set_if_wanted(i32::from(machine.contexts.active_primary(device).is_some()));
        Ok(())
    }
}

fn release(device: i32) -> Outcome {
    let mut machine = state::lock()?;
    let device = machine.device(device)?;
    match machine.contexts.release_primary(device)? {
        Some(context) => end(machine, context),
        None => Ok(()),
    }
}

/// The handle stays and the references stay; the next retain gives the context a new id.
fn reset(device: i32) -> Outcome {
    let machine = state::lock()?;
    let device = machine.device(device)?;
    match machine.contexts.active_primary(device) {
        Some(context) => end(machine, context),
        None => Ok(()),
    }
}

fn end(machine: Machine, context: u64) -> Outcome {
    let idle = machine.timeline.context_idle_at(context, machine.now());
    machine.wait_until(idle)?.destroy_context(context);
    Ok(())
}
