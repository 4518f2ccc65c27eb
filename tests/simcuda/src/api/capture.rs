//! Stream capture.

use std::ffi::c_void;

use crate::abi::{In, Out};
use crate::capture::Mode;
use crate::code::Outcome;
use crate::entry::Default0;
use crate::gate::exports;
use crate::state;
use crate::thread;

exports! {
    /// The ABI of CUDA 10.0, without a mode: global.
    [Init] cuStreamBeginCapture as "cuStreamBeginCapture" 10000 (stream: u64) {
        begin(stream, 0, Default0::Legacy)
    }

    [Init] cuStreamBeginCapture_ptsz as "cuStreamBeginCapture" 10000 (stream: u64) {
        begin(stream, 0, Default0::PerThread)
    }

    [Init] cuStreamBeginCapture_v2 as "cuStreamBeginCapture" 10010 (stream: u64, mode: u32) {
        begin(stream, mode, Default0::Legacy)
    }

    [Init] cuStreamBeginCapture_v2_ptsz as "cuStreamBeginCapture" 10010 (stream: u64, mode: u32) {
        begin(stream, mode, Default0::PerThread)
    }

    [Init] cuStreamEndCapture as "cuStreamEndCapture" 10000 (stream: u64, graph: Out<u64>) {
        end(stream, graph, Default0::Legacy)
    }

    [Init] cuStreamEndCapture_ptsz as "cuStreamEndCapture" 10000 (stream: u64, graph: Out<u64>) {
        end(stream, graph, Default0::PerThread)
    }

    [Init] cuStreamIsCapturing as "cuStreamIsCapturing" 10000 (stream: u64, status: Out<u32>) {
        is_capturing(stream, status, Default0::Legacy)
    }

    [Init] cuStreamIsCapturing_ptsz as "cuStreamIsCapturing" 10000 (stream: u64, status: Out<u32>) {
        is_capturing(stream, status, Default0::PerThread)
    }

    /// The graph and its dependencies are not given: there is no graph before the end here.
    [Init] cuStreamGetCaptureInfo_v2 as "cuStreamGetCaptureInfo" 11030 (
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>,
        dependencies: Out<*const c_void>, count: Out<usize>
    ) {
        let mut machine = state::lock()?;
        let stream = machine.stream_named(stream, Default0::Legacy)?;
        let (now, capture) = machine.capture_status(stream);
        status.set(now)?;
        id.set_if_wanted(capture);
        graph.set_if_wanted(0);
        dependencies.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        Ok(())
    }

    [Init] cuThreadExchangeStreamCaptureMode as "cuThreadExchangeStreamCaptureMode" 10010 (
        mode: *mut u32
    ) {
        let wanted = Mode::from_number(In(mode.cast_const()).get()?)?;
        Out(mode).set(thread::exchange_capture_mode(wanted) as u32)
    }
}

fn begin(stream: u64, mode: u32, default: Default0) -> Outcome {
    let mode = Mode::from_number(mode)?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.begin_capture(stream, mode, None)
}

/// A capture that failed gives a null graph.
fn end(stream: u64, graph: Out<u64>, default: Default0) -> Outcome {
    graph.required()?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    let ended = machine.end_capture(stream);
    graph.set(*ended.as_ref().unwrap_or(&0))?;
    ended.map(drop)
}

fn is_capturing(stream: u64, status: Out<u32>, default: Default0) -> Outcome {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.respect_implicit_order(stream, "cuStreamIsCapturing")?;
    status.set(machine.capture_status(stream).0)
}
