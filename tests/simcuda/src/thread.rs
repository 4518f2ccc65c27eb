//! What the driver keeps per thread: the context stack and the capture mode.
//!
//! The values have no destructor, so they can be used at any point of a thread's end.

use std::cell::Cell;

use crate::capture::Mode;

/// The driver's own limit is unknown; this one is deeper than any program goes.
const DEPTH: usize = 64;

thread_local! {
    static STACK: Cell<([u64; DEPTH], usize)> = const { Cell::new(([0; DEPTH], 0)) };
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// The kernel's id of this thread.
pub(crate) fn id() -> i32 {
    // SAFETY: gettid takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

/// The context on top of the stack, if any.
pub(crate) fn current_context() -> Option<u64> {
    let (stack, depth) = STACK.get();
    depth.checked_sub(1).map(|top| stack[top])
}

/// Pushes a context; false if the stack is full.
pub(crate) fn push_context(context: u64) -> bool {
    let (mut stack, depth) = STACK.get();
    let Some(place) = stack.get_mut(depth) else { return false };
    *place = context;
    STACK.set((stack, depth + 1));
    true
}

/// Pops the current context.
pub(crate) fn pop_context() -> Option<u64> {
    let top = current_context();
    let (stack, depth) = STACK.get();
    STACK.set((stack, depth.saturating_sub(1)));
    top
}

/// The capture mode that the thread has chosen.
pub(crate) fn capture_mode() -> Mode {
    MODE.get()
}

/// Sets the capture mode and gives the former one.
pub(crate) fn exchange_capture_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}
