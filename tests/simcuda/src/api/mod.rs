//! The exported functions, one file for each part of the driver's manual, and no logic: each
//! translates its arguments, locks the machine, and asks it.

#![allow(non_snake_case, reason = "named after the driver's functions")]

pub mod capture;
pub mod context;
pub mod copy;
pub mod device;
pub mod driver;
pub mod event;
pub mod graph;
pub mod host;
pub mod ipc;
pub mod legacy32;
pub mod lookup;
pub mod memory;
pub mod pointer;
pub mod pool;
pub mod primary;
#[cfg(not(feature = "old"))]
pub mod since_cuda12;
pub mod stream;
pub mod testing;
pub mod vmm;

use crate::entry::Entry;

static FILES: &[&[Entry]] = &[
    &capture::ENTRIES,
    &context::ENTRIES,
    &copy::ENTRIES,
    &device::ENTRIES,
    &driver::ENTRIES,
    &event::ENTRIES,
    &graph::ENTRIES,
    &host::ENTRIES,
    &ipc::ENTRIES,
    &legacy32::ENTRIES,
    &lookup::ENTRIES,
    &memory::ENTRIES,
    &pointer::ENTRIES,
    &pool::ENTRIES,
    &primary::ENTRIES,
    #[cfg(not(feature = "old"))]
    &since_cuda12::ENTRIES,
    &stream::ENTRIES,
    &testing::ENTRIES,
    &vmm::ENTRIES,
];

/// Every exported function.
pub(crate) fn entries() -> impl Iterator<Item = &'static Entry> {
    FILES.iter().flat_map(|file| file.iter())
}
