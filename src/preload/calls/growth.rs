//! Calls behind which the driver takes device memory that has no address: kernels, streams, graphs, arrays. They are measured,
//! so that the report can say what became of the card, and retried: what the pools hold must be no reason for them to fail.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::super::process::{Phase, Process, phase};
use crate::cuda::{CuResult, StreamHandle, real};
use crate::ledger::DeviceBook;

/// What the growth is counted as.
#[derive(Clone, Copy)]
enum Cause {
    Modules,
    Streams,
    /// Only retried.
    Other,
}

impl Cause {
    fn counter(self, book: &DeviceBook) -> Option<&AtomicU64> {
        match self {
            Cause::Modules => Some(&book.modules_bytes),
            Cause::Streams => Some(&book.streams_bytes),
            Cause::Other => None,
        }
    }
}

impl Process {
    /// Runs a call, again if it failed for want of memory that the pools could give back, and measures what the device lost.
    fn growing(&'static self, cause: Cause, call: impl FnMut() -> CuResult) -> CuResult {
        let mut call = call;
        let Some(context) = self.context().filter(|_| phase() == Phase::Awake) else {
            return call();
        };
        let book = self.books.device(context.device);
        let Some(counter) = cause.counter(book) else {
            return self.with_retry(context.device, call);
        };
        context.measured_by.fetch_add(1, Relaxed);
        let before = self.untracked(context.device);
        let code = call();
        let after = self.untracked(context.device);
        context.measured_by.fetch_sub(1, Relaxed);
        if let (Some(before), Some(after)) = (before, after) {
            counter.fetch_add(after.saturating_sub(before), Relaxed);
        }
        if code == CuResult::OUT_OF_MEMORY { self.retry(context.device, code, call) } else { code }
    }

    /// What is used on the device beyond what is tracked.
    fn untracked(&self, device: u32) -> Option<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the write. Safe during captures (measured).
        unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) }.ok().ok()?;
        self.take_sample(device, free as u64, total as u64);
        Some(((total - free) as u64).saturating_sub(self.books.device(device).tracked_bytes()))
    }
}

/// Kernels that were seen, in a table; each has a few places. One that finds them all taken by others takes one over: then a kernel
/// is measured again, which costs time and nothing else.
static KNOWN: [AtomicUsize; 1 << 14] = [const { AtomicUsize::new(0) }; 1 << 14];
const PLACES: usize = 8;

/// Whether a kernel was seen before; from now on it was.
pub(in super::super) fn is_known(kernel: usize) -> bool {
    let first = (kernel >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    let places = || (0..PLACES).filter_map(|place| KNOWN.get((first + place) % KNOWN.len()));
    for place in places() {
        match place.load(Relaxed) {
            known if known == kernel => return true,
            0 if place.compare_exchange(0, kernel, Relaxed, Relaxed).is_ok() => return false,
            _ => {}
        }
    }
    if let Some(place) = places().nth(kernel >> 8 & (PLACES - 1)) {
        place.store(kernel, Relaxed);
    }
    false
}

/// The first launch of a kernel: with lazy loading, its code goes to the device now.
pub(in super::super) fn first_launch(
    process: &'static Process,
    launch: impl FnMut() -> CuResult,
) -> CuResult {
    process.growing(Cause::Modules, launch)
}

macro_rules! growing {
    ($($cause:ident: $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[allow(clippy::too_many_arguments, reason = "the driver's own")]
        pub(in super::super) unsafe fn $name(process: &'static Process, $($arg: $type),*) -> CuResult {
            // SAFETY: the program's own arguments.
            process.growing(Cause::$cause, || unsafe { real::$name($($arg),*) })
        }
    )*};
}

growing! {
    Modules: cuModuleLoad(module: *mut usize, path: *const c_char);
    Modules: cuModuleLoadData(module: *mut usize, image: *const c_void);
    Modules: cuModuleLoadDataEx(module: *mut usize, image: *const c_void, count: u32, options: *mut i32, values: *mut *mut c_void);
    Modules: cuModuleLoadFatBinary(module: *mut usize, image: *const c_void);
    Modules: cuLibraryLoadData(library: *mut usize, image: *const c_void, options: *mut i32, values: *mut *mut c_void, count: u32, library_options: *mut i32, library_values: *mut *mut c_void, library_count: u32);
    Modules: cuLibraryLoadFromFile(library: *mut usize, path: *const c_char, options: *mut i32, values: *mut *mut c_void, count: u32, library_options: *mut i32, library_values: *mut *mut c_void, library_count: u32);
    Modules: cuLibraryGetModule(module: *mut usize, library: usize);
    Streams: cuStreamCreate(stream: *mut StreamHandle, flags: u32);
    Streams: cuStreamCreateWithPriority(stream: *mut StreamHandle, flags: u32, priority: i32);
    Other: cuGraphInstantiateWithFlags(graph_exec: *mut usize, graph: usize, flags: u64);
    Other: cuGraphInstantiateWithParams(graph_exec: *mut usize, graph: usize, parameters: *mut c_void);
    Other: cuArrayCreate_v2(array: *mut usize, descriptor: *const c_void);
    Other: cuArray3DCreate_v2(array: *mut usize, descriptor: *const c_void);
    Other: cuMipmappedArrayCreate(array: *mut usize, descriptor: *const c_void, levels: u32);
}

/// Measured once for each kernel: some programs look one up before every launch.
pub(in super::super) unsafe fn cuKernelGetFunction(
    process: &'static Process,
    function: *mut usize,
    kernel: usize,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::cuKernelGetFunction(function, kernel) };
    if is_known(kernel) { call() } else { process.growing(Cause::Modules, call) }
}

/// As [`cuKernelGetFunction`].
pub(in super::super) unsafe fn cuFuncLoad(process: &'static Process, function: usize) -> CuResult {
    // SAFETY: the program's own argument.
    let call = || unsafe { real::cuFuncLoad(function) };
    if is_known(function) { call() } else { process.growing(Cause::Modules, call) }
}
