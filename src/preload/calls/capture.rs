//! Captures: counted, since a context event recorded during one breaks it.
//!
//! The count goes up before the driver's call, under each pool's lock: so no pool records between the two.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::super::contexts::Context;
use super::super::process::{Process, lock};
use crate::cuda::{CuResult, StreamHandle, real};

/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NOT_CAPTURING: u32 = 0;
/// `CU_STREAM_PER_THREAD`: what stream 0 means to the functions that end in `_ptsz`.
const PER_THREAD: StreamHandle = 2;

/// Streams that capture, each with the place of its context.
#[derive(Debug, Default)]
pub(in super::super) struct Captures {
    streams: Mutex<Vec<(u64, StreamHandle)>>,
    count: AtomicUsize,
}

impl Captures {
    /// How many streams capture. While the answer is used, hold what `begin` needs: see the order of locks.
    pub(in super::super) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }
}

/// The stream that a function which ends in `_ptsz` means.
pub(super) fn per_thread(stream: StreamHandle) -> StreamHandle {
    if stream == 0 { PER_THREAD } else { stream }
}

fn is_capturing(stream: StreamHandle) -> bool {
    let mut status = NOT_CAPTURING;
    // SAFETY: the program gave the stream; `status` is valid for the write.
    let code = unsafe { real::cuStreamIsCapturing(stream, &mut status) };
    code.is_ok() && status != NOT_CAPTURING
}

impl Process {
    /// Whether a stream captures; asks the driver only while some stream of the process does.
    pub(super) fn is_capturing(&self, stream: StreamHandle) -> bool {
        self.captures.count() > 0 && is_capturing(stream)
    }

    fn each_pool(&self, begins: bool) {
        self.captures
            .count
            .fetch_update(Relaxed, Relaxed, |count| {
                Some(if begins { count + 1 } else { count.saturating_sub(1) })
            })
            .ok();
        self.contexts.each_living(|context| context.pool.capture(begins));
    }

    fn begin_capture(
        &'static self,
        stream: StreamHandle,
        call: impl FnOnce() -> CuResult,
    ) -> CuResult {
        let context = self.context().map_or(u64::MAX, |context| context.index);
        // Held over the call: a context that is made meanwhile is made before or after, and counts the same captures.
        let _making = self.contexts.stop_making();
        self.each_pool(true);
        let code = call();
        if code.is_ok() {
            lock(&self.captures.streams).push((context, stream));
        } else {
            self.each_pool(false);
        }
        code
    }

    fn end_capture(&self, stream: StreamHandle, call: impl FnOnce() -> CuResult) -> CuResult {
        let code = call();
        // Most errors end a capture too, but not all: a wrong thread, a missing argument.
        if code.is_ok() || !is_capturing(stream) {
            self.capture_is_over(|_, other| other == stream, 1);
        }
        code
    }

    /// Captures that ended, by whatever way: at most so many of those that `is_over` names.
    fn capture_is_over(&self, is_over: impl Fn(u64, StreamHandle) -> bool, at_most: usize) {
        let mut over = 0;
        lock(&self.captures.streams).retain(|&(context, stream)| {
            let ended = over < at_most && is_over(context, stream);
            over += usize::from(ended);
            !ended
        });
        let _making = (over > 0).then(|| self.contexts.stop_making());
        (0..over).for_each(|_| self.each_pool(false));
    }

    /// The stream is destroyed.
    pub(super) fn stream_is_gone(&self, stream: StreamHandle) {
        if self.captures.count() > 0 {
            self.capture_is_over(|_, other| other == stream, usize::MAX);
        }
    }

    /// The context is gone, and its streams with it.
    pub(in super::super) fn captures_died(&self, context: &Context) {
        self.capture_is_over(|index, _| index == context.index, usize::MAX);
    }
}

macro_rules! begin {
    ($($name:ident $of:ident ($($arg:ident: $type:ty),*);)*) => {$(
        pub(in super::super) unsafe fn $name(
            process: &'static Process,
            stream: StreamHandle,
            $($arg: $type),*
        ) -> CuResult {
            // SAFETY: the program's own arguments.
            process.begin_capture($of(stream), || unsafe { real::$name(stream, $($arg),*) })
        }
    )*};
}

/// The stream that a function without `_ptsz` means.
fn legacy(stream: StreamHandle) -> StreamHandle {
    stream
}

begin! {
    cuStreamBeginCapture legacy ();
    cuStreamBeginCapture_ptsz per_thread ();
    cuStreamBeginCapture_v2 legacy (mode: u32);
    cuStreamBeginCapture_v2_ptsz per_thread (mode: u32);
    cuStreamBeginCaptureToGraph legacy (graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: u32);
    cuStreamBeginCaptureToGraph_ptsz per_thread (graph: usize, dependencies: *const usize, data: *const c_void, count: usize, mode: u32);
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
    let call = || unsafe { real::cuStreamEndCapture_ptsz(stream, graph) };
    process.end_capture(per_thread(stream), call)
}
