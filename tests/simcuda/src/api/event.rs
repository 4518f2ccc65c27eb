//! Events.

use crate::abi::Out;
use crate::capture::Hazard;
use crate::clock::Time;
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state::{self, Sim};

const DISABLE_TIMING: u32 = 2;
const KNOWN_FLAGS: u32 = 7;

exports! {
    [Init] cuEventCreate as "cuEventCreate" 2000 (event: Out<u64>, flags: u32) {
        event.required()?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let mut machine = state::lock()?;
        let context = machine.contexts.current()?;
        event.set(machine.timeline.add_event(context, flags & DISABLE_TIMING == 0))
    }

    [Init] cuEventDestroy_v2 as "cuEventDestroy" 4000 (event: u64) {
        let mut machine = state::lock()?;
        machine.event_named(event)?;
        machine.timeline.remove_event(event);
        Ok(())
    }

    [Init] cuEventRecord as "cuEventRecord" 2000 (event: u64, stream: u64) {
        record(event, stream, DefaultStream::Legacy)
    }

    [Init] cuEventRecord_ptsz as "cuEventRecord" 7000 (event: u64, stream: u64) {
        record(event, stream, DefaultStream::PerThread)
    }

    [Init] cuEventQuery as "cuEventQuery" 2000 (event: u64) {
        let mut machine = state::lock()?;
        let done = ask(&mut machine, event, "cuEventQuery")?;
        if done > machine.now() { Err(Code::NOT_READY) } else { Ok(()) }
    }

    [Init] cuEventSynchronize as "cuEventSynchronize" 2000 (event: u64) {
        let mut machine = state::lock()?;
        let done = ask(&mut machine, event, "cuEventSynchronize")?;
        machine.wait_until(done).map(drop)
    }

    [Init] cuEventElapsedTime as "cuEventElapsedTime" 2000 (
        milliseconds: Out<f32>, start: u64, end: u64
    ) {
        elapsed(milliseconds, start, end)
    }
}

fn record(event: u64, stream: u64, default: DefaultStream) -> Outcome {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.record_event(event, stream)
}

/// When the event is done, if it may be asked.
fn ask(machine: &mut Sim, event: u64, call: &str) -> Outcome<Time> {
    let (done, mark) = {
        let found = machine.event_named(event)?;
        (found.done, found.mark)
    };
    machine.respect_captures(Hazard::Unsafe, call)?;
    if mark.is_some() { Err(Code::CAPTURED_EVENT) } else { Ok(done.unwrap_or(0)) }
}

/// The time between two events.
pub(crate) fn elapsed(milliseconds: Out<f32>, start: u64, end: u64) -> Outcome {
    let machine = state::lock()?;
    let now = machine.now();
    let time = |event| {
        let found = machine.event_named(event)?;
        let done = found.done.filter(|_| found.timed).ok_or(Code::INVALID_HANDLE)?;
        if done > now { Err(Code::NOT_READY) } else { Ok(done) }
    };
    let span = time(end)? as f64 - time(start)? as f64;
    milliseconds.set((span / 1e6) as f32)
}
