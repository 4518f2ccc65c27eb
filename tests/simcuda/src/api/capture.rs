//! Stream capture.

use std::ffi::c_void;

use crate::abi::{In, Out};
use crate::capture::Mode;
use crate::code::Outcome;
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state;
use crate::thread;

exports! {
    /// The ABI of CUDA 10.0, without a mode: global.
    [Init] cuStreamBeginCapture as "cuStreamBeginCapture" 10000 (stream: u64) {
        begin(stream, 0, DefaultStream::Legacy)
    }

    [Init] cuStreamBeginCapture_ptsz as "cuStreamBeginCapture" 10000 (stream: u64) {
        begin(stream, 0, DefaultStream::PerThread)
    }

    [Init] cuStreamBeginCapture_v2 as "cuStreamBeginCapture" 10010 (stream: u64, mode: u32) {
        begin(stream, mode, DefaultStream::Legacy)
    }

    [Init] cuStreamBeginCapture_v2_ptsz as "cuStreamBeginCapture" 10010 (stream: u64, mode: u32) {
        begin(stream, mode, DefaultStream::PerThread)
    }

    [Init] cuStreamEndCapture as "cuStreamEndCapture" 10000 (stream: u64, graph: Out<u64>) {
        end(stream, graph, DefaultStream::Legacy)
    }

    [Init] cuStreamEndCapture_ptsz as "cuStreamEndCapture" 10000 (stream: u64, graph: Out<u64>) {
        end(stream, graph, DefaultStream::PerThread)
    }

    [Init] cuStreamIsCapturing as "cuStreamIsCapturing" 10000 (stream: u64, status: Out<u32>) {
        is_capturing(stream, status, DefaultStream::Legacy)
    }

    [Init] cuStreamIsCapturing_ptsz as "cuStreamIsCapturing" 10000 (stream: u64, status: Out<u32>) {
        is_capturing(stream, status, DefaultStream::PerThread)
    }

    [Init] cuStreamGetCaptureInfo as "cuStreamGetCaptureInfo" 10010 (
        stream: u64, status: Out<u32>, id: Out<u64>
    ) {
        give_info(stream, status, id, DefaultStream::Legacy)
    }

    [Init] cuStreamGetCaptureInfo_ptsz as "cuStreamGetCaptureInfo" 10010 (
        stream: u64, status: Out<u32>, id: Out<u64>
    ) {
        give_info(stream, status, id, DefaultStream::PerThread)
    }

    /// The graph and its dependencies are not given: there is no graph before the end here.
    [Init] cuStreamGetCaptureInfo_v2 as "cuStreamGetCaptureInfo" 11030 (
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>,
        dependencies: Out<*const c_void>, count: Out<usize>
    ) {
        graph.set_if_wanted(0);
        dependencies.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        give_info(stream, status, id, DefaultStream::Legacy)
    }

    [Init] cuStreamGetCaptureInfo_v2_ptsz as "cuStreamGetCaptureInfo" 11030 (
        stream: u64, status: Out<u32>, id: Out<u64>, graph: Out<u64>,
        dependencies: Out<*const c_void>, count: Out<usize>
    ) {
        graph.set_if_wanted(0);
        dependencies.set_if_wanted(std::ptr::null());
        count.set_if_wanted(0);
        give_info(stream, status, id, DefaultStream::PerThread)
    }

    [Init] cuThreadExchangeStreamCaptureMode as "cuThreadExchangeStreamCaptureMode" 10010 (
        mode: *mut u32
    ) {
        let wanted = Mode::from_number(In(mode.cast_const()).get()?)?;
        Out(mode).set(thread::exchange_capture_mode(wanted) as u32)
    }
}

fn begin(stream: u64, mode: u32, default: DefaultStream) -> Outcome {
    let mode = Mode::from_number(mode)?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.begin_capture(stream, mode, None)
}

/// A capture that failed gives a null graph.
fn end(stream: u64, graph: Out<u64>, default: DefaultStream) -> Outcome {
    graph.required()?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    let ended = machine.end_capture(stream);
    graph.set(*ended.as_ref().unwrap_or(&0))?;
    ended.map(drop)
}

fn is_capturing(stream: u64, status: Out<u32>, default: DefaultStream) -> Outcome {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.respect_implicit_order(stream, "cuStreamIsCapturing")?;
    status.set(machine.capture_status(stream).0)
}

fn give_info(stream: u64, status: Out<u32>, id: Out<u64>, default: DefaultStream) -> Outcome {
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    let (now, capture) = machine.capture_status(stream);
    id.set_if_wanted(capture);
    status.set(now)
}
