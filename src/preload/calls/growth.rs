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
        // Nobody must give memory back between the two looks.
        let alone = cause
            .counter(book)
            .and_then(|counter| Some((counter, context.maintenance.try_lock().ok()?)));
        let before = alone.as_ref().and_then(|_| self.untracked(context.device));
        let code = call();
        let after = before.and_then(|_| self.untracked(context.device));
        if let (Some((counter, _)), Some(before), Some(after)) = (&alone, before, after) {
            counter.fetch_add(after.saturating_sub(before), Relaxed);
        }
        drop(alone);
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

/// Kernels that were launched, in a table of which the slot is the low bits of the handle, mixed. A kernel that finds its slot taken
/// by another is measured again, which costs time and nothing else.
static KNOWN: [AtomicUsize; 1 << 14] = [const { AtomicUsize::new(0) }; 1 << 14];

/// Whether a kernel was launched before; from now on it was.
pub(in super::super) fn is_known(kernel: usize) -> bool {
    let slot = (kernel >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    KNOWN.get(slot).is_none_or(|known| {
        known.load(Relaxed) == kernel || {
            known.store(kernel, Relaxed);
            false
        }
    })
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
    Modules: cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char);
    Modules: cuLibraryLoadData(library: *mut usize, image: *const c_void, options: *mut i32, values: *mut *mut c_void, count: u32, library_options: *mut i32, library_values: *mut *mut c_void, library_count: u32);
    Modules: cuLibraryLoadFromFile(library: *mut usize, path: *const c_char, options: *mut i32, values: *mut *mut c_void, count: u32, library_options: *mut i32, library_values: *mut *mut c_void, library_count: u32);
    Modules: cuLibraryGetModule(module: *mut usize, library: usize);
    Modules: cuKernelGetFunction(function: *mut usize, kernel: usize);
    Modules: cuFuncLoad(function: usize);
    Streams: cuStreamCreate(stream: *mut StreamHandle, flags: u32);
    Streams: cuStreamCreateWithPriority(stream: *mut StreamHandle, flags: u32, priority: i32);
    Other: cuGraphInstantiateWithFlags(graph_exec: *mut usize, graph: usize, flags: u64);
    Other: cuGraphInstantiateWithParams(graph_exec: *mut usize, graph: usize, parameters: *mut c_void);
    Other: cuArrayCreate_v2(array: *mut usize, descriptor: *const c_void);
    Other: cuArray3DCreate_v2(array: *mut usize, descriptor: *const c_void);
    Other: cuMipmappedArrayCreate(array: *mut usize, descriptor: *const c_void, levels: u32);
}
