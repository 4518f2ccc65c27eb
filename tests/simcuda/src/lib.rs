//! A stand-in for NVIDIA's `libcuda.so.1`, for tests of libraries between CUDA and its driver.
//!
//! It behaves as the driver was measured to behave (`README.md` names the source of each belief)
//! and it is strict: wrong use is a *violation*, which is printed, written to a file and counted.
//!
//! Bottom-up:
//! - `code`, `abi`, `settings`, `violation`, `log`, `thread`, `clock`, `mmap`: the
//!   ground that everything stands on.
//! - `spans`, `heap`, `physical`, `memory`, `vmm`, `pool`, `host`, `ipc`,
//!   `sharing`, `address`: memory.
//! - `timeline`, `ordering`, `operation`, `capture`, `graph`: work.
//! - `context`, `handles`, `state`: what holds both together.
//! - `entry`, `gate`, `faults`, `process`: what surrounds each exported function.
//! - `api`: the exported functions, and nothing else.

#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
#![warn(unreachable_pub, missing_debug_implementations)]
#![cfg_attr(feature = "old", allow(dead_code, reason = "used by src/api/since_cuda12.rs only"))]

pub mod abi;
mod address;
pub mod api;
mod capture;
mod clock;
pub mod code;
mod context;
mod entry;
mod faults;
mod gate;
mod graph;
mod handles;
mod heap;
mod host;
mod ipc;
mod log;
mod memory;
mod mmap;
mod operation;
mod ordering;
mod physical;
mod pool;
mod process;
mod settings;
mod sharing;
mod spans;
mod state;
mod thread;
mod timeline;
mod violation;
mod vmm;
