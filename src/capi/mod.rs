//! The C API (`include/cenote.h`), and the entry points of PyTorch's pluggable allocator.
//!
//! Both are thin: they find the [engine](crate::pool::engine) of a device and the counters of the thread, and turn answers into
//! codes. Each device has one engine, made at the first request for memory on it; the preload's pools are apart from it and only
//! share the limit.
//!
//! # Invariants
//! 1. Nothing unwinds, exits or prints out of this module.
//! 2. After exit has begun, and in the forked child of a process that allocated here, the driver is not called.
//! 3. The program's callback is called with no lock held.
//! 4. A hit takes one thread-local read and one lock of its own: no allocation, no driver call.
#![expect(unsafe_code, reason = "the C ABI edge")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

pub mod api;
pub mod blocks;
mod card;
mod devices;
pub mod ipc;
mod life;
mod marks;
mod memory;
mod oom;
pub mod pool;
mod pools;
mod sharing;
mod stats;
mod threads;
pub mod torch;

pub use blocks::cenote_block_fn;
pub use oom::cenote_oom_fn;
pub use stats::{cenote_block, cenote_count, cenote_stats, cenote_usage};
