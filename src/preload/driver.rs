//! The real driver, as the pool of one context uses it.

use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

use super::clock;
use super::process::{self, Phase, lock};
use crate::cuda::table::{self, Function};
use crate::cuda::{ContextHandle, CuResult, DevicePtr, Driver, Event, Failure, real};

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;

/// The driver in one context.
#[derive(Debug)]
pub(super) struct ContextDriver {
    context: ContextHandle,
    device: u32,
    /// Events that nobody uses at the moment.
    events: Mutex<Vec<usize>>,
    /// False while the context may be ending, and afterwards.
    usable: AtomicBool,
}

impl ContextDriver {
    pub(super) fn new(context: ContextHandle, device: u32) -> Self {
        ContextDriver { context, device, events: Mutex::default(), usable: AtomicBool::new(true) }
    }

    /// Whether the pool may call the driver for this context.
    pub(super) fn set_usable(&self, usable: bool) {
        self.usable.store(usable, Release);
    }

    /// After exit has begun the driver is left alone, and so is a context that ends.
    fn may_call(&self) -> Result<(), CuResult> {
        let may = process::phase() == Phase::Awake && self.usable.load(Acquire);
        if may { Ok(()) } else { Err(CuResult::NOT_INITIALIZED) }
    }

    fn event(&self) -> Result<usize, CuResult> {
        if let Some(event) = lock(&self.events).pop() {
            return Ok(event);
        }
        let mut event = 0;
        // SAFETY: the context is current, and `event` is valid for the write.
        unsafe { real::cuEventCreate(&mut event, DISABLE_TIMING) }.ok()?;
        Ok(event)
    }
}

/// The context that is current in this thread; none without one.
pub(super) fn current_context() -> Option<ContextHandle> {
    let mut context = 0;
    // SAFETY: `context` is valid for the write.
    let code = unsafe { real::cuCtxGetCurrent(&mut context) };
    (code.is_ok() && context != 0).then_some(context)
}

/// Runs `call` with the context current, and leaves the caller's stack of contexts as it was.
pub(crate) fn within<T>(context: ContextHandle, call: impl FnOnce() -> T) -> Result<T, CuResult> {
    if current_context() == Some(context) {
        return Ok(call());
    }
    // SAFETY: the context is alive: its death marks the pool dead first.
    unsafe { real::cuCtxPushCurrent_v2(context) }.ok()?;
    let result = call();
    let mut popped = 0;
    // SAFETY: pops what was pushed.
    unsafe { real::cuCtxPopCurrent_v2(&mut popped) };
    Ok(result)
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: u32 = 2;

/// Runs `call` as a thread that does not mind the captures of others: so an allocation or a query of ours breaks none.
pub(crate) fn relaxed<T>(call: impl FnOnce() -> T) -> T {
    let mut mode = RELAXED;
    // SAFETY: `mode` is valid for the exchange.
    let exchanged = unsafe { real::cuThreadExchangeStreamCaptureMode(&mut mode) }.is_ok();
    let result = call();
    if exchanged {
        // SAFETY: as above; puts the caller's mode back.
        unsafe { real::cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
    result
}

impl Driver for ContextDriver {
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, Failure> {
        let budget = process::current().map(|process| process.budget(self.device));
        if budget.is_some_and(|budget| !budget.take(bytes)) {
            return Err(Failure::OutOfMemory);
        }
        let mut pointer = 0;
        // SAFETY: `pointer` is valid for the write; the program called with this context current.
        let code = relaxed(|| unsafe { real::cuMemAlloc_v2(&mut pointer, bytes as usize) });
        tracing::info!(bytes, code = code.0, "cuMemAlloc");
        code.ok().map(|()| pointer).map_err(|code| {
            budget.inspect(|budget| budget.put_back(bytes));
            Failure::from(code)
        })
    }

    fn free(&self, address: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        self.may_call()?;
        tracing::info!(address, bytes, "cuMemFree");
        // SAFETY: the pool gives back whole allocations that it got from `allocate`, once.
        let free = || unsafe { real::cuMemFree_v2(address) };
        let code = within(self.context, || relaxed(free))?;
        if let Some(process) = process::current() {
            process.budget(self.device).put_back(bytes);
        }
        code.ok()
    }

    fn lost(&self, bytes: u64) {
        if let Some(process) = process::current() {
            process.budget(self.device).put_back(bytes);
        }
    }

    fn record(&self) -> Result<Event, CuResult> {
        self.may_call()?;
        within(self.context, || {
            let event = self.event()?;
            // SAFETY: the event belongs to this context.
            let code = unsafe { real::cuCtxRecordEvent(self.context, event) };
            if !code.is_ok() {
                lock(&self.events).push(event);
            }
            code.ok().map(|()| event as Event)
        })?
    }

    fn is_done(&self, event: Event) -> bool {
        // The pool asks under its lock and outside of captures, and a capture begins under that lock: no need to be relaxed.
        // SAFETY: the event came from `record` and was not destroyed.
        let ask = || unsafe { real::cuEventQuery(event as usize) };
        self.may_call().is_ok() && within(self.context, ask).is_ok_and(CuResult::is_ok)
    }

    fn wait(&self, event: Event, patience_ms: u64) -> Result<bool, CuResult> {
        let end = clock::now_ms() + patience_ms;
        let mut round = 0u32;
        loop {
            self.may_call()?;
            // SAFETY: as in `is_done`; the pool does not recycle an event that somebody waits for.
            let ask = || unsafe { real::cuEventQuery(event as usize) };
            match within(self.context, || relaxed(ask))? {
                CuResult::NOT_READY if clock::now_ms() < end => {}
                CuResult::NOT_READY => return Ok(false),
                code => return code.ok().map(|()| true),
            }
            round += 1;
            match round {
                0..2000 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    fn recycle(&self, event: Event) {
        lock(&self.events).push(event as usize);
    }

    fn synchronise(&self) -> Result<(), CuResult> {
        self.may_call()?;
        // SAFETY: acts on the current context, which is this one.
        within(self.context, || unsafe { real::cuCtxSynchronize() })?.ok()
    }

    fn has_context_events(&self) -> bool {
        table::has(Function::cuCtxRecordEvent)
    }

    fn now_ms(&self) -> u64 {
        clock::now_ms()
    }
}
