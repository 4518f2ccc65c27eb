//! Functions that the driver of CUDA 11.8 lacks. The feature `old` leaves this file out.

use std::ffi::c_void;

use crate::abi::{Out, Text};
use crate::api::{event, lookup};
use crate::capture::{Hazard, Mode};
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state;
use crate::thread;

exports! {
    [Nothing] cuGetProcAddress_v2 as "cuGetProcAddress" 12000 (
        symbol: Text, address: Out<*const c_void>, version: i32, flags: u64, status: Out<u32>
    ) {
        lookup::answer(symbol, address, version, flags, status)
    }

    /// A null context means the current one.
    [Init] cuCtxSynchronize_v2 as "cuCtxSynchronize" 13000 (context: u64) {
        let machine = state::lock()?;
        let context = if context == 0 { machine.contexts.current()? } else { context };
        super::context::synchronise(machine, context)
    }

    /// A null context means the current one. Asking about a dead one is a probe and no violation.
    [Init] cuCtxGetId as "cuCtxGetId" 12000 (context: u64, id: Out<u64>) {
        let machine = state::lock()?;
        let context = if context == 0 { machine.contexts.current()? } else { context };
        id.set(machine.contexts.id_of(context)?)
    }

    /// The parameters would ask for execution affinity; only their absence is simulated.
    [Init] cuCtxCreate_v4 as "cuCtxCreate" 12050 (
        context: Out<u64>, params: *const c_void, flags: u32, device: i32
    ) {
        context.required()?;
        if !params.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let mut machine = state::lock()?;
        let device = machine.device(device)?;
        let handle = machine.contexts.create(device);
        thread::push_context(handle);
        context.set(handle)
    }

    [Init] cuCtxRecordEvent as "cuCtxRecordEvent" 12050 (context: u64, event: u64) {
        let mut machine = state::lock()?;
        let context = machine.contexts.named(context)?;
        machine.respect_captures(Hazard::ContextWide { context }, "cuCtxRecordEvent")?;
        machine.record_context_event(context, event)
    }

    [Init] cuCtxWaitEvent as "cuCtxWaitEvent" 12050 (context: u64, event: u64) {
        let mut machine = state::lock()?;
        let context = machine.contexts.named(context)?;
        machine.respect_captures(Hazard::ContextWide { context }, "cuCtxWaitEvent")?;
        machine.context_waits(context, event)
    }

    [Init] cuStreamBeginCaptureToGraph as "cuStreamBeginCaptureToGraph" 12030 (
        stream: u64, graph: u64, dependencies: *const c_void, edges: *const c_void, count: usize,
        mode: u32
    ) {
        begin_to_graph(stream, graph, mode, DefaultStream::Legacy)
    }

    [Init] cuStreamBeginCaptureToGraph_ptsz as "cuStreamBeginCaptureToGraph" 12030 (
        stream: u64, graph: u64, dependencies: *const c_void, edges: *const c_void, count: usize,
        mode: u32
    ) {
        begin_to_graph(stream, graph, mode, DefaultStream::PerThread)
    }

    [Init] cuEventElapsedTime_v2 as "cuEventElapsedTime" 12080 (
        milliseconds: Out<f32>, start: u64, end: u64
    ) {
        event::elapsed(milliseconds, start, end)
    }
}

fn begin_to_graph(stream: u64, graph: u64, mode: u32, default: DefaultStream) -> Outcome {
    let mode = Mode::from_number(mode)?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.graphs.check(graph)?;
    machine.begin_capture(stream, mode, Some(graph))
}
