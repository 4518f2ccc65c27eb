//! Free memory of a pool in one line.

use cenote::report::{Device, Report};

use crate::render::{bytes, percent};

/// Whether the pool of a device had nothing to do.
pub(crate) fn served_nothing(device: &Device) -> bool {
    device.pool.allocations == 0 && device.pool.peak_reserved_bytes == 0
}

/// Says that the pool had nothing to do, and why where that is known.
pub(crate) fn nothing_served(report: &Report) -> String {
    let why = if report.coverage.mode == "observe" { " (mode:observe)" } else { "" };
    format!("served nothing{why}")
}

/// Whether all that is free still waits for work. Then the largest free block says nothing about fragmentation.
pub(crate) fn only_waits(device: &Device) -> bool {
    let found = &device.fragmentation;
    found.free_bytes > 0
        && found.largest_free_bytes == 0
        && found.stranded.waiting_bytes == found.free_bytes
}

/// Fragmentation in one line.
pub(crate) fn line(device: &Device) -> String {
    let found = &device.fragmentation;
    let (internal, free) = (percent(found.internal_ratio), bytes(found.free_bytes));
    if found.free_bytes == 0 {
        format!("internal {internal}; nothing free")
    } else if only_waits(device) {
        format!("internal {internal}; {free} free waits for work in flight")
    } else if device.segments.is_empty() {
        format!("internal {internal}; {free} free in pieces that are not known")
    } else {
        let (external, largest) = (percent(found.external_ratio), bytes(found.largest_free_bytes));
        format!("internal {internal}, external {external}; largest free {largest} of {free} free")
    }
}
