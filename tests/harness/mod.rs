//! Runs tiny programs under the library to preload, against the stand-in driver, and reads back what was seen.
//!
//! A program of `tests/native` asks one question and prints its answers as `name number` lines. [`Run`] gives it an empty
//! folder, an environment of its own and 30 seconds, and [`Outcome`] holds its status, its answers, the reports that were
//! written, and what the stand-in driver complained about. Two things are checked after every run unless a test says
//! otherwise: the driver saw no violation of its rules, and every report has the types and the sums that the schema
//! promises.
//!
//! # Not here
//! Building the libraries: `scripts/build` puts them into the stage (`CENOTE_STAGE`, else `target/stage`).
#![allow(dead_code, unused_imports, reason = "every test file uses a part of it")]

mod checks;
mod outcome;
mod run;
mod running;
mod stage;

pub use outcome::Outcome;
pub use run::Run;
pub use running::Running;
pub use stage::{compiled, native, repository, stage};

/// Bytes that a report says are live, on all devices.
pub fn live(report: &cenote::report::Report) -> u64 {
    let kinds = report.devices.iter().flat_map(|device| device.memory.by_kind.values());
    kinds.map(|live| live.bytes).sum()
}

/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
