//! The steps of the program, as it names them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::preload::trace;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<String> = Mutex::new(String::new());

/// A step begins.
pub(super) fn mark(name: &str) {
    COUNT.fetch_add(1, Relaxed);
    trace::mark(name);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    name.clone_into(&mut last);
}

/// Steps so far.
pub(super) fn count() -> u64 {
    COUNT.load(Relaxed)
}
