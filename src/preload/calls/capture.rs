//! Captures: counted, since a context event recorded during one breaks it.
//!
//! The count goes up before the driver's call, under each pool's lock: so no pool records between the two.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::c_void;

use super::super::process::{Process, lock};
use crate::cuda::{CuResult, StreamHandle, real};

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NOT_CAPTURING: u32 = 0;

impl Process {
    /// Whether a stream captures; asks the driver only while some stream of the process does.
    pub(super) fn is_capturing(&self, stream: StreamHandle) -> bool {
        if lock(&self.capturing).is_empty() {
            return false;
        }
        let mut status = NOT_CAPTURING;
        // SAFETY: the program gave the stream; `status` is valid for the write.
        let code = unsafe { real::cuStreamIsCapturing(stream, &mut status) };
        code.is_ok() && status != NOT_CAPTURING
    }

    fn capture(&self, begins: bool) {
        self.contexts.living().iter().for_each(|context| context.pool.capture(begins));
    }

    fn begin_capture(&self, stream: StreamHandle, call: impl FnOnce() -> CuResult) -> CuResult {
        // The list is held throughout, so that a context that is made meanwhile counts the same captures.
        let mut capturing = lock(&self.capturing);
        self.capture(true);
        let code = call();
        if code.is_ok() {
            capturing.push(stream);
        } else {
            self.capture(false);
        }
        code
    }

    fn end_capture(&self, stream: StreamHandle, call: impl FnOnce() -> CuResult) -> CuResult {
        let code = call();
        if code != CuResult::CAPTURE_WRONG_THREAD {
            self.capture_is_over(stream);
        }
        code
    }

    /// The stream ended its capture, or is destroyed.
    pub(super) fn capture_is_over(&self, stream: StreamHandle) {
        let mut capturing = lock(&self.capturing);
        if let Some(place) = capturing.iter().position(|&other| other == stream) {
            capturing.swap_remove(place);
            self.capture(false);
        }
    }
}

macro_rules! begin {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        pub(in super::super) unsafe fn $name(
            process: &'static Process,
            stream: StreamHandle,
            $($arg: $type),*
        ) -> CuResult {
            // SAFETY: the program's own arguments.
            process.begin_capture(stream, || unsafe { real::$name(stream, $($arg),*) })
        }
    )*};
}

begin! {
    cuStreamBeginCapture();
    cuStreamBeginCapture_ptsz();
    cuStreamBeginCapture_v2(mode: u32);
    cuStreamBeginCapture_v2_ptsz(mode: u32);
    cuStreamBeginCaptureToGraph(graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: u32);
    cuStreamBeginCaptureToGraph_ptsz(graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: u32);
}

pub(in super::super) unsafe fn cuStreamEndCapture(
    process: &'static Process,
    stream: StreamHandle,
    graph: *mut usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    process.end_capture(stream, || unsafe { real::cuStreamEndCapture(stream, graph) })
}

pub(in super::super) unsafe fn cuStreamEndCapture_ptsz(
    process: &'static Process,
    stream: StreamHandle,
    graph: *mut usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    process.end_capture(stream, || unsafe { real::cuStreamEndCapture_ptsz(stream, graph) })
}
