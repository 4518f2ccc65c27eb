//! What the pool needs of a driver. The preload implements it for the real one, tests for a model.

use super::{CuResult, DevicePtr};

/// An event of the driver, as a plain number.
pub type Event = u64;

/// Why an allocation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The driver has no memory, or a limit of ours forbids it: giving something back may help.
    OutOfMemory,
    /// Anything else, to be passed on as it is. A sticky error is one of these: no retry.
    Other(CuResult),
}

/// The calls through which a pool gets memory and learns what is done. All belong to one context.
///
/// The pool holds its lock while it calls [`record`](Driver::record), [`is_done`](Driver::is_done), [`recycle`](Driver::recycle)
/// and [`now_ms`](Driver::now_ms), which are short and never wait, and does not hold it while it calls the others.
pub trait Driver {
    /// Takes device memory: `cuMemAlloc`.
    ///
    /// # Errors
    /// See [`Failure`].
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, Failure>;

    /// Gives a whole allocation back: `cuMemFree`. Waits for the work of the context.
    ///
    /// # Errors
    /// What the driver says. The pool has forgotten the memory, whatever that is.
    fn free(&self, address: DevicePtr, bytes: u64) -> Result<(), CuResult>;

    /// So many bytes that [`allocate`](Driver::allocate) gave went with their context before the pool wrote them down.
    fn lost(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Records an event behind all work of the context, on all its streams.
    ///
    /// # Errors
    /// If there is none to be had. The pool then synchronises or asks again later.
    fn record(&self) -> Result<Event, CuResult>;

    /// Whether the work before the event is done. An error counts as not done.
    fn is_done(&self, event: Event) -> bool;

    /// Waits until it is, for so many milliseconds at most. False if it still is not.
    ///
    /// # Errors
    /// An error of earlier work.
    fn wait(&self, event: Event, patience_ms: u64) -> Result<bool, CuResult>;

    /// The event is not needed any more.
    fn recycle(&self, event: Event);

    /// Waits for all work of the context; for a driver without context events.
    ///
    /// # Errors
    /// An error of earlier work.
    fn synchronise(&self) -> Result<(), CuResult>;

    /// Whether [`record`](Driver::record) can work at all.
    fn has_context_events(&self) -> bool;

    /// Milliseconds of a clock that never goes back.
    fn now_ms(&self) -> u64;
}

/// What a driver's refusal means for the program.
impl From<CuResult> for Failure {
    fn from(code: CuResult) -> Self {
        match code {
            CuResult::OUT_OF_MEMORY => Failure::OutOfMemory,
            other => Failure::Other(other),
        }
    }
}
