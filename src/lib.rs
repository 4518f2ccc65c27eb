//! cenote: a pool of device memory to preload under a CUDA program, and a report that says where the memory went.
//!
//! The rooms, from the ground floor up; a lower room never uses an upper one (`scripts/check-layers`):
//!
//! | module | what it is |
//! | --- | --- |
//! | [`conf`] | the configuration table and its parser |
//! | [`cuda`] | driver types, the function table, the [`cuda::Driver`] trait |
//! | [`pool`] | which block goes to whom, and when; no unsafe code |
//! | [`ledger`] | live blocks, call sites, what happened |
//! | [`report`] | the JSON report: types, writer, sums |
//! | `replay` | traces, a simulated card, and the engine between them; of the command line, no unsafe code |
//! | [`page`] | the mapped page that survives SIGKILL |
//! | [`preload`] | the doors into a process and its life cycle |
//! | [`capi`] | the C API, and the entry points of PyTorch's pluggable allocator |
//!
//! `docs/architecture.md` follows one allocation, one free and one out-of-memory through them.

pub mod capi;
pub mod conf;
#[macro_use]
pub mod cuda;
pub mod ledger;
pub mod page;
pub mod pool;
pub mod preload;
#[cfg(feature = "cli")]
pub mod replay;
pub mod report;
