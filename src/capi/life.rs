//! The first use of the C API in a process, and its end.
//!
//! The library may be preloaded, linked or opened; only in the first case do the doors know when exit begins. So the C API has
//! handlers of its own.

use std::sync::Once;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};

use super::{memory, sharing};
use crate::cuda::loader;
use crate::preload::{shared, trace};

static EXIT_HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Registers the handlers; the driver must have been initialised, so that ours run before its own.
pub(super) fn begin() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        // A pointer of ours is a thread's key, and another one a handler's: the library must not go away under them.
        loader::stay(begin as *const () as usize);
        let _ = shared::STREAM_ENDS.set(memory::stream_ends);
        let _ = shared::KEEPS
            .set(shared::Keeps { idle_bytes: memory::idle_bytes, trim: memory::trim_device });
        if cfg!(feature = "doors") {
            // Panics are caught at the edge; the library prints nothing.
            std::panic::set_hook(Box::new(|_| ()));
        }
        // SAFETY: both handlers are functions of this library, which stays loaded.
        unsafe {
            libc::atexit(exit_begins);
            libc::pthread_atfork(None, None, Some(forked));
        }
    });
}

extern "C" fn exit_begins() {
    EXIT_HAS_BEGUN.store(true, Release);
    trace::finish();
}

extern "C" fn forked() {
    IS_CHILD.store(true, Relaxed);
    trace::forked();
    sharing::forked();
}

/// Whether this is the forked child of a process that used the C API: the driver is dead here, and any lock may be held.
#[inline]
pub(super) fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}

/// Whether the driver must be left alone.
pub(super) fn driver_is_gone() -> bool {
    EXIT_HAS_BEGUN.load(Acquire) || is_child() || shared::driver_is_gone()
}
