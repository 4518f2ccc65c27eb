//! Streams and events: counted at the door, and the synchronising calls used to settle freed memory.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::process::{Phase, Process, phase};
use super::super::shared;
use crate::cuda::{CuResult, StreamHandle, real};

impl Process {
    /// The program has just waited for work: what was freed before may be ready now, and memory that has been idle may go back
    /// while the device is. Looked at now and then: a thread that synchronises all the time must not hold up another one's frees.
    fn synchronised(&'static self, code: CuResult) -> CuResult {
        if code.is_ok()
            && phase() == Phase::Awake
            && self.pools()
            && let Some(context) = self.context()
        {
            self.settle_and_release(context);
        }
        code
    }
}

macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        pub(in super::super) unsafe fn $name(_: &'static Process, $($arg: $type),*) -> CuResult {
            // SAFETY: the program's own arguments.
            unsafe { real::$name($($arg),*) }
        }
    )*};
}

pass! {
    cuEventCreate(event: *mut usize, flags: u32);
    cuEventDestroy_v2(event: usize);
}

pub(in super::super) unsafe fn cuStreamDestroy_v2(
    process: &'static Process,
    stream: StreamHandle,
) -> CuResult {
    process.stream_is_gone(stream);
    // While it is there: an event behind its work can still be recorded.
    if let Some(ends) = shared::STREAM_ENDS.get() {
        ends(stream);
    }
    // SAFETY: the program's own argument.
    unsafe { real::cuStreamDestroy_v2(stream) }
}

macro_rules! synchronise {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        pub(in super::super) unsafe fn $name(process: &'static Process, $($arg: $type),*) -> CuResult {
            // SAFETY: the program's own arguments.
            process.synchronised(unsafe { real::$name($($arg),*) })
        }
    )*};
}

synchronise! {
    cuCtxSynchronize();
    cuCtxSynchronize_v2(context: usize);
    cuStreamSynchronize(stream: StreamHandle);
    cuStreamSynchronize_ptsz(stream: StreamHandle);
    cuEventSynchronize(event: usize);
}
