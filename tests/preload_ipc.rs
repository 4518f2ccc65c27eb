//! Handles between processes. Cases C13 and C25.

mod harness;

use cenote::report::{EventKind, Report};
use harness::{MIB, Run};

/// The odd sizes of the public reports, a slab's sizes, and whole blocks.
const SIZES: [u64; 10] =
    [1, 65, 123, 160, 4096, 65_536, 1_048_576, 2_097_275, 2_267_136, 16_789_561];

fn has(report: &Report, kind: EventKind) -> bool {
    report.events.iter().any(|event| event.kind == kind)
}

// C25; Mooncake #3546, cupy #9436, UCX #11724, numba #3379: the handle names the segment, and the peer reads 1, 1, 1, 1.
// So it does here when either side drops the offset.
#[test]
fn each_exported_block_opens_as_itself() {
    for bytes in SIZES {
        let outcome = Run::new("ipc_blocks").args(["both", &bytes.to_string()]).run().ok();
        assert_eq!(
            (outcome.values("code"), outcome.values("right")),
            (vec![0; 4], vec![1; 4]),
            "{bytes} bytes"
        );
        assert_eq!(
            (outcome.value("new_code"), outcome.value("new_right")),
            (0, 1),
            "{bytes} bytes"
        );
        // The handle from before the free fails, or still shows what it showed; never the new owner's bytes.
        assert_eq!(outcome.values("old_shows_new").iter().sum::<u64>(), 0, "{bytes} bytes");
    }
}

// C25, only the producer is hooked: its handles mean what the driver says. Wrong bytes with a success code, and nobody told,
// are the one answer that may not be.
#[test]
fn a_peer_without_cenote_never_reads_wrong_bytes_unseen() {
    for bytes in SIZES {
        let outcome = Run::new("ipc_blocks").args(["producer", &bytes.to_string()]).run().ok();
        let right = outcome.values("right");
        let all_right = right.iter().all(|&right| right == 1);
        let report = outcome.report_of(outcome.value("producer"));
        let told = has(report, EventKind::SharedSegment) && !report.notes.is_empty();
        assert!(
            all_right || told,
            "{bytes} bytes: {right:?}, and not a word in {:?} {:?}",
            report.events,
            report.notes
        );
        if bytes >= MIB {
            assert!(
                all_right && right.len() == 4,
                "{bytes} bytes: a block of its own needs no peer's help"
            );
        }
    }
}

// The remedy that the note names: without slabs every block is an allocation of its own.
#[test]
fn without_slabs_a_peer_without_cenote_reads_right_bytes() {
    for bytes in SIZES {
        let run = Run::new("ipc_blocks").args(["producer", &bytes.to_string()]).conf("slabs:false");
        let outcome = run.run().ok();
        assert_eq!(
            (outcome.values("code"), outcome.values("right")),
            (vec![0; 4], vec![1; 4]),
            "{bytes} bytes"
        );
    }
}

#[test]
fn an_exported_sub_block_is_named_in_the_report() {
    let outcome = Run::new("ipc_blocks").args(["both", "65536"]).run().ok();
    let report = outcome.report_of(outcome.value("producer"));
    let event = report.events.iter().find(|event| event.kind == EventKind::SharedSegment);
    let event = event.unwrap_or_else(|| panic!("{:?}", report.events));
    assert!(
        event.text.contains(&(2 * MIB).to_string()),
        "how much the peer can read: {}",
        event.text
    );
    assert!(report.devices[0].pool.exported_blocks >= 4, "{:?}", report.devices[0].pool);
}

// C25: an exported block is not recycled while it may be open.
#[test]
fn a_block_that_a_peer_has_open_gets_no_new_owner() {
    for bytes in SIZES {
        let outcome = Run::new("ipc_open").arg(bytes.to_string()).run().ok();
        assert_eq!(outcome.value("shows_new"), 0, "{bytes} bytes");
    }
}

// C13; pytorch #149187, #145703: one export, four opens and closes, and the counter went to -3.
#[test]
fn balanced_opens_leave_nothing_behind() {
    let outcome = Run::new("ipc_counts").arg("balanced").run().ok();
    assert_eq!((outcome.value("status"), outcome.value("back")), (0, 1));
    for who in ["producer", "consumer"] {
        let report = outcome.report_of(outcome.value(who));
        assert!(!has(report, EventKind::UnbalancedClose), "{who}: {:?}", report.events);
        for device in &report.devices {
            let live: u64 = device.memory.by_kind.values().map(|live| live.bytes).sum();
            assert_eq!((live, device.pool.reserved_bytes), (0, 0), "{who}");
        }
    }
    // The importer holds nothing that is its own.
    let consumer = outcome.report_of(outcome.value("consumer"));
    assert!(
        consumer.devices.iter().all(|device| device.memory.peak_live_bytes == 0),
        "{:?}",
        consumer.devices
    );
}

#[test]
fn a_close_too_many_is_the_drivers_error_and_is_reported() {
    let outcome = Run::new("ipc_counts").arg("unbalanced").run().ok();
    assert_eq!((outcome.value("fifth"), outcome.value("back")), (1, 1));
    assert!(has(outcome.report_of(outcome.value("consumer")), EventKind::UnbalancedClose));
}

// C13, second run: the peer dies while it has the block open.
#[test]
fn a_block_of_a_killed_peer_is_reclaimed() {
    let outcome = Run::new("ipc_counts").arg("killed").run().ok();
    assert_eq!(outcome.value("status") as u32 as i32, -libc::SIGKILL);
    assert_eq!((outcome.value("back"), outcome.value("driver_frees")), (1, 1));
}

// torch_memory_saver #36, sglang #27593: legacy handles need memory of cuMemAlloc. torch_memory_saver #88, #107, NCCL's
// registration: memory is never remapped at an address. Both hold when the pool makes none of these calls.
#[test]
fn the_pool_never_maps_memory_itself() {
    let outcome = Run::new("threads").args(["4", "50"]).run().ok();
    for name in ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemAddressReserve", "cuMemAllocAsync"]
    {
        assert_eq!(outcome.calls(name), 0, "{name}");
    }
}

// C24, and what UCX and NCCL do with it: the range of an inner pointer is the program's block, whole as it was asked for; and
// base plus distance is the same byte on the other side, whichever of the two was exported.
#[test]
fn a_range_is_that_of_the_block_on_both_sides() {
    for how in ["pointer", "start"] {
        let outcome = Run::new("ipc_range").arg(how).run().ok();
        assert_eq!((outcome.value("is_base"), outcome.value("length")), (1, 65536), "{how}");
        assert_eq!(outcome.value("right"), 1, "{how}");
    }
}
