//! Contexts and the calling thread's stack of them.

use crate::abi::Out;
use crate::capture::Hazard;
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::state::{self, Machine};
use crate::thread;

/// What `cuCtxGetApiVersion` says of contexts made by `cuCtxCreate_v2`.
const API_VERSION: u32 = 3020;

/// Waits for all work of a context.
pub(super) fn synchronise(mut machine: Machine, context: u64) -> Outcome {
    machine.respect_captures(Hazard::ContextWide { context }, "cuCtxSynchronize")?;
    let idle = machine.timeline.context_idle_at(context, machine.now());
    machine.wait_until(idle).map(drop)
}

exports! {
    [Init] cuCtxCreate_v2 as "cuCtxCreate" 3020 (context: Out<u64>, flags: u32, device: i32) {
        let mut machine = state::lock()?;
        let device = machine.device(device)?;
        context.required()?;
        let handle = machine.contexts.create(device);
        thread::push_context(handle);
        context.set(handle)
    }

    [Init] cuCtxDestroy_v2 as "cuCtxDestroy" 4000 (context: u64) {
        let machine = state::lock()?;
        machine.contexts.check(context)?;
        if machine.contexts.is_primary(context) {
            return Err(Code::INVALID_CONTEXT);
        }
        let idle = machine.timeline.context_idle_at(context, machine.now());
        machine.wait_until(idle)?.destroy_context(context);
        if thread::current_context() == Some(context) {
            thread::pop_context();
        }
        Ok(())
    }

    [Init] cuCtxGetCurrent as "cuCtxGetCurrent" 4000 (context: Out<u64>) {
        state::lock()?;
        context.set(thread::current_context().unwrap_or(0))
    }

    [Init] cuCtxSetCurrent as "cuCtxSetCurrent" 4000 (context: u64) {
        let machine = state::lock()?;
        if context != 0 {
            machine.contexts.check(context)?;
        }
        thread::pop_context();
        if context != 0 {
            thread::push_context(context);
        }
        Ok(())
    }

    [Init] cuCtxPushCurrent_v2 as "cuCtxPushCurrent" 4000 (context: u64) {
        state::lock()?.contexts.check(context)?;
        if thread::push_context(context) { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
    }

    [Init] cuCtxPopCurrent_v2 as "cuCtxPopCurrent" 4000 (context: Out<u64>) {
        state::lock()?;
        let popped = thread::pop_context().ok_or(Code::INVALID_CONTEXT)?;
        context.set_if_wanted(popped);
        Ok(())
    }

    [Init] cuCtxGetDevice as "cuCtxGetDevice" 2000 (device: Out<i32>) {
        let machine = state::lock()?;
        let context = machine.contexts.current()?;
        device.set(machine.contexts.device_of(context)? as i32)
    }

    /// Also a way to ask whether a context lives, so a dead one is no violation.
    [Init] cuCtxGetApiVersion as "cuCtxGetApiVersion" 3020 (context: u64, version: Out<u32>) {
        let machine = state::lock()?;
        let context = if context == 0 { machine.contexts.current()? } else { context };
        if !machine.contexts.is_live(context) {
            return Err(Code::INVALID_CONTEXT);
        }
        version.set(API_VERSION)
    }

    [Init] cuCtxSynchronize as "cuCtxSynchronize" 2000 () {
        let machine = state::lock()?;
        let context = machine.contexts.current()?;
        synchronise(machine, context)
    }

    [Init] cuCtxEnablePeerAccess as "cuCtxEnablePeerAccess" 4000 (peer: u64, flags: u32) {
        let mut machine = state::lock()?;
        let context = machine.contexts.current()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.contexts.enable_peer(context, peer)
    }
}
