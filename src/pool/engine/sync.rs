//! Where the engine's locks and atomics come from: the standard library, or a checker that decides which thread goes on.
//!
//! `--cfg cenote_shuttle` plays the whole engine in made-up orders of its threads. `--cfg cenote_loom` is for the counters
//! alone, in every order, and with every old value that an atomic may still give. `scripts/orders` runs both.

/// What the counters use.
#[cfg(not(any(cenote_loom, cenote_shuttle)))]
pub(super) mod counters {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
}
#[cfg(cenote_shuttle)]
pub(super) mod counters {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
    pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};
}
#[cfg(cenote_loom)]
pub(super) mod counters {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
}

#[cfg(cenote_shuttle)]
pub(super) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};
#[cfg(not(any(cenote_loom, cenote_shuttle)))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize},
};
