//! Streams.

use crate::abi::Out;
use crate::capture::Hazard;
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state::{self, Machine};
use crate::timeline::Role;

exports! {
    [Init] cuStreamCreate as "cuStreamCreate" 2000 (stream: Out<u64>, flags: u32) {
        create(stream, flags)
    }

    /// Priorities have no effect here.
    [Init] cuStreamCreateWithPriority as "cuStreamCreateWithPriority" 5050 (
        stream: Out<u64>, flags: u32, priority: i32
    ) {
        create(stream, flags)
    }

    /// The handle ends at once, the stream's work goes on.
    [Init] cuStreamDestroy_v2 as "cuStreamDestroy" 4000 (stream: u64) {
        let mut machine = state::lock()?;
        if stream <= 2 {
            return Err(Code::INVALID_HANDLE);
        }
        let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
        machine.timeline.remove_stream(stream);
        Ok(())
    }

    [Init] cuStreamSynchronize as "cuStreamSynchronize" 2000 (stream: u64) {
        synchronize(stream, DefaultStream::Legacy)
    }

    [Init] cuStreamSynchronize_ptsz as "cuStreamSynchronize" 7000 (stream: u64) {
        synchronize(stream, DefaultStream::PerThread)
    }

    [Init] cuStreamQuery as "cuStreamQuery" 2000 (stream: u64) {
        query(stream, DefaultStream::Legacy)
    }

    [Init] cuStreamQuery_ptsz as "cuStreamQuery" 7000 (stream: u64) {
        query(stream, DefaultStream::PerThread)
    }

    [Init] cuStreamWaitEvent as "cuStreamWaitEvent" 3020 (stream: u64, event: u64, flags: u32) {
        wait_event(stream, event, DefaultStream::Legacy)
    }

    [Init] cuStreamWaitEvent_ptsz as "cuStreamWaitEvent" 7000 (
        stream: u64, event: u64, flags: u32
    ) {
        wait_event(stream, event, DefaultStream::PerThread)
    }

    [Init] cuStreamGetCtx as "cuStreamGetCtx" 9020 (stream: u64, context: Out<u64>) {
        let mut machine = state::lock()?;
        let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
        context.set(machine.timeline.stream(stream).ok_or(Code::INVALID_HANDLE)?.context)
    }
}

fn create(stream: Out<u64>, flags: u32) -> Outcome {
    stream.required()?;
    let role = match flags {
        0 => Role::Blocking,
        1 => Role::NonBlocking,
        _ => return Err(Code::INVALID_VALUE),
    };
    let mut machine = state::lock()?;
    let context = machine.contexts.current()?;
    stream.set(machine.timeline.add_stream(context, role))
}

/// The stream, after the captures that may not be asked about it.
fn ask(stream: u64, default: DefaultStream, call: &str) -> Outcome<(Machine, u64)> {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    let capture = machine.capture_of(stream);
    machine.respect_captures(Hazard::OnMember { capture }, call)?;
    machine.respect_captures(Hazard::Unsafe, call)?;
    machine.respect_implicit_order(stream, call)?;
    Ok((machine, stream))
}

fn synchronize(stream: u64, default: DefaultStream) -> Outcome {
    let (machine, stream) = ask(stream, default, "cuStreamSynchronize")?;
    let idle = machine.timeline.next_start(stream, machine.now());
    machine.wait_until(idle).map(drop)
}

fn query(stream: u64, default: DefaultStream) -> Outcome {
    let (machine, stream) = ask(stream, default, "cuStreamQuery")?;
    let now = machine.now();
    if machine.timeline.next_start(stream, now) > now { Err(Code::NOT_READY) } else { Ok(()) }
}

fn wait_event(stream: u64, event: u64, default: DefaultStream) -> Outcome {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.stream_waits(stream, event)
}
