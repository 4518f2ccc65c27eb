//! Limits and the numbers that programs plan with. Cases C34 and C35.

mod harness;

use harness::{GIB, MIB, Run};

const KINDS: [&str; 6] = ["plain", "pitched", "managed", "async", "pool", "create"];
const BLOCK: u64 = 33_554_432;

/// Bytes live in all kinds of device memory, as the report has them.
fn live(outcome: &harness::Outcome, device: u32) -> u64 {
    outcome.device(device).memory.by_kind.values().map(|live| live.bytes).sum()
}

// C35 (a); HAMi #1181 (usage 18446744073707737660), HAMi-core PRs 217, 128, 186, 311.
#[test]
fn two_hundred_rounds_under_a_limit_never_fail_by_any_path() {
    for kind in KINDS {
        let outcome = Run::new("limit").args([kind, "churn"]).conf("limit:512MiB").run().ok();
        assert_eq!((outcome.value("count"), outcome.value("back")), (200, 1), "{kind}");
        assert_eq!(live(&outcome, 0), 0, "{kind}");
        assert_eq!(outcome.device(0).memory.peak_live_bytes, BLOCK, "{kind}");
    }
}

// C35 (b); HAMi #1328: a new path bypassed the limit. Exactly 16 blocks of 32 MiB fit into 512 MiB.
#[test]
fn the_seventeenth_block_is_out_of_memory_by_any_path() {
    for kind in KINDS {
        let outcome = Run::new("limit").args([kind, "fill"]).conf("limit:512MiB").run().ok();
        assert_eq!((outcome.value("code"), outcome.value("output")), (2, 0), "{kind}");
        assert_eq!(outcome.value("count"), 16, "{kind}");
        assert_eq!(live(&outcome, 0), 536_870_912, "{kind}");
        assert_eq!((outcome.value("free"), outcome.value("total")), (0, 536_870_912), "{kind}");
    }
}

// C35 (c); HAMi #2641: NCCL's handles in host memory were charged to a device and refused.
#[test]
fn a_handle_in_host_memory_is_charged_to_no_device() {
    let outcome = Run::new("host_create").conf("limit:512MiB").run().ok();
    assert_eq!(outcome.value("charged"), 0);
    assert_eq!(live(&outcome, 0), 0);
    assert_eq!(outcome.device(0).pool.out_of_memory, 0);
}

// C35 (f); kvcached #364, #430: a step failed after the allocation, and the entry stayed.
#[test]
fn a_failed_step_leaves_nothing_charged() {
    let faults = [
        ("plain", "cuMemAlloc_v2:2=999"),
        ("plain", "cuMemAlloc_v2:1=2"),
        ("plain", "cuEventCreate:*=999"),
        ("pitched", "cuMemAllocPitch_v2:3=999"),
        ("managed", "cuMemAllocManaged:3=999"),
        ("async", "cuMemAllocAsync:3=999"),
        ("pool", "cuMemAllocFromPoolAsync:3=999"),
        ("create", "cuMemCreate:3=2"),
        ("create", "cuMemMap:3=999"),
    ];
    for (kind, fault) in faults {
        let run = Run::new("rollback").arg(kind).env("SIMCUDA_FAIL", fault).conf("limit:512MiB");
        let outcome = run.run().ok();
        assert_eq!(outcome.value("back"), 1, "{kind} {fault}");
        assert_eq!(live(&outcome, 0), 0, "{kind} {fault}");
    }
}

// C34 (a); HAMi #1370: limit minus use went below zero and the query failed. The context alone takes 345 MiB here.
#[test]
fn a_limit_below_the_context_is_no_underflow() {
    let run = Run::new("free_size").conf("limit:256MiB");
    let outcome = run.env("SIMCUDA_CONTEXT_BYTES", (345 * MIB).to_string()).run().ok();
    assert_eq!((outcome.value("code"), outcome.value("total")), (0, 268_435_456));
    assert!(outcome.value("free") <= outcome.value("total"));
    // What is called free is to be had; the limit is about allocations and does not count the context.
    assert_eq!(outcome.value("alloc"), 0);
    assert_eq!(outcome.value("free_after"), 0);
}

// C34 (b); HAMi-core PR 81: limit 15360 MiB on a card of about 14917 (an even number here: memory goes by 2 MiB).
#[test]
fn a_limit_above_the_card_is_the_card() {
    let run = Run::new("free_size")
        .conf("limit:15360MiB")
        .env("SIMCUDA_CAPACITY", (14916 * MIB).to_string());
    let outcome = run.run().ok();
    assert_eq!(outcome.value("total"), 14916 * MIB);
    assert_eq!(outcome.value("alloc"), 0);
}

// C34 (c) is `a_null_output_is_no_crash`. C34 (d), (e): what lies in the cache is free to the program, and a reservation is no
// use.
#[test]
fn cached_memory_counts_as_free() {
    for conf in ["", "limit:16GiB"] {
        let outcome = Run::new("mem_info").conf(conf).run().ok();
        let first = outcome.value("free_first");
        assert_eq!(outcome.value("free_live"), first - 4 * GIB, "{conf}");
        assert_eq!(outcome.value("free_cached"), first, "{conf}");
        assert_eq!(outcome.value("free_reserved"), first, "{conf}");
        for when in ["first", "live", "cached", "reserved"] {
            let total = if conf.is_empty() { 80 * GIB } else { 16 * GIB };
            assert_eq!(outcome.value(&format!("total_{when}")), total, "{conf}");
        }
        // ... and is shown apart in the report.
        let pool = outcome.pool();
        assert_eq!(
            (pool.cached_bytes, pool.live_bytes, outcome.value("driver_frees")),
            (4 * GIB, 0, 0),
            "{conf}"
        );
    }
}

// C34 (f): own memory subtracted twice.
#[test]
fn free_plus_own_stays_the_same() {
    for conf in ["", "limit:16GiB", "mode:observe,limit:16GiB"] {
        let caps = Run::new("own_cap").conf(conf).run().ok().values("cap");
        assert_eq!(caps.len(), 3);
        assert!(caps.iter().all(|&cap| cap == caps[0]), "{conf}: {caps:?}");
    }
}

// C34 (h): the driver's code, and nothing written.
#[test]
fn a_query_that_fails_writes_nothing() {
    for conf in ["", "limit:1GiB"] {
        let run = Run::new("info_fails").conf(conf).env("SIMCUDA_FAIL", "cuMemGetInfo_v2:*=999");
        let outcome = run.run().ok();
        assert_eq!(
            (outcome.value("code"), outcome.value("free"), outcome.value("total")),
            (999, 42, 43),
            "{conf}"
        );
    }
}

// C34 (g): NVML is not hooked, so its total stays the card's; what cenote calls used is what the report says.
#[test]
fn the_report_and_the_query_agree() {
    let outcome = Run::new("limit").args(["plain", "fill"]).conf("limit:512MiB").run().ok();
    let used = outcome.value("total") - outcome.value("free");
    assert_eq!(used, outcome.device(0).memory.by_kind.values().map(|live| live.bytes).sum::<u64>());
    assert_eq!(outcome.pool().limit_bytes, Some(512 * MIB));
}
