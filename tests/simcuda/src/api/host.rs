//! Pinned host memory.

use crate::abi::Out;
use crate::capture::Hazard;
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::state;

exports! {
    [Init] cuMemHostAlloc as "cuMemHostAlloc" 2020 (
        pointer: Out<u64>, bytesize: usize, flags: u32
    ) {
        allocate(pointer, bytesize, "cuMemHostAlloc")
    }

    [Init] cuMemAllocHost_v2 as "cuMemAllocHost" 3020 (pointer: Out<u64>, bytesize: usize) {
        allocate(pointer, bytesize, "cuMemAllocHost")
    }

    /// Waits for the memory's context, so that no work uses the memory when it goes.
    [Init] cuMemFreeHost as "cuMemFreeHost" 2000 (pointer: u64) {
        let mut machine = state::lock()?;
        machine.respect_captures(Hazard::Unsafe, "cuMemFreeHost")?;
        let context = machine.host.at(pointer).ok_or(Code::INVALID_VALUE)?.context;
        let idle = machine.timeline.context_idle_at(context, machine.now());
        machine.wait_until(idle)?.free_host(pointer)
    }

    [Init] cuMemHostRegister_v2 as "cuMemHostRegister" 6050 (
        pointer: u64, bytesize: usize, flags: u32
    ) {
        let mut machine = state::lock()?;
        let context = machine.contexts.current()?;
        machine.register_host(context, pointer, bytesize)
    }

    [Init] cuMemHostUnregister as "cuMemHostUnregister" 4000 (pointer: u64) {
        state::lock()?.unregister_host(pointer)
    }
}

fn allocate(pointer: Out<u64>, size: usize, call: &str) -> Outcome {
    pointer.required()?;
    let mut machine = state::lock()?;
    let context = machine.contexts.current()?;
    machine.respect_captures(Hazard::Unsafe, call)?;
    pointer.set(machine.allocate_host(context, size)?)
}
