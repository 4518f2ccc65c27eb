//! What holds for every report, whatever the program did.

use std::fs;
use std::path::Path;

use cenote::report::{Report, SCHEMA};

/// Reads a report and checks what holds for every one.
pub(super) fn read(file: &Path, sums_hold: bool) -> Report {
    let text = fs::read_to_string(file).unwrap();
    let report: Report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{} is no report: {error}\n{text}", file.display()));
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        written,
        "{} has keys that the schema lacks",
        file.display()
    );
    assert_eq!(report.schema, SCHEMA);
    for device in report.devices.iter().filter(|_| sums_hold) {
        let (pool, memory) = (&device.pool, &device.memory);
        assert_eq!(
            pool.reserved_bytes,
            pool.live_bytes + pool.cached_bytes + pool.waiting_bytes + pool.internal_bytes,
            "reserved = live + cached + waiting + internal: {pool:?}"
        );
        let sums = [
            pool.reserved_bytes,
            pool.peak_reserved_bytes,
            pool.peak_live_bytes,
            memory.peak_live_bytes,
        ];
        assert!(sums.iter().all(|&bytes| bytes < 1 << 62), "a number wrapped: {device:?}");
        let in_segments: u64 = device.segments.iter().map(|segment| segment.bytes).sum();
        let all = report.complete && report.truncated.segments == 0;
        assert!(!all || in_segments == pool.reserved_bytes, "{device:?}");
        let by_owner: u64 = memory.by_owner.iter().map(|owner| owner.bytes).sum();
        let by_kind: u64 = memory.by_kind.values().map(|live| live.bytes).sum();
        assert_eq!(
            by_owner, by_kind,
            "owners and kinds are two views of the same bytes: {memory:?}"
        );
        let ratios = [device.fragmentation.internal_ratio, device.fragmentation.external_ratio];
        assert!(
            ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)),
            "{:?}",
            device.fragmentation
        );
    }
    let stacks = report
        .sites
        .iter()
        .map(|site| &site.stack)
        .chain(report.events.iter().map(|event| &event.stack));
    let frames = report.frames.len();
    assert!(
        stacks.flatten().all(|&frame| (frame as usize) < frames),
        "a stack names a frame that is not there"
    );
    let leaks = report.devices.iter().flat_map(|device| &device.leaks);
    assert!(
        leaks.clone().all(|leak| (leak.site as usize) < report.sites.len()),
        "a leak names a site that is not there"
    );
    report
}
