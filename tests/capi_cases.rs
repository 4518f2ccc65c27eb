//! Sequences from public reports through the C API, with the answers that a user would expect. Cases C09, C34, C35; those about sizes
//! alone are in `engine_cases`.

mod harness;

use cenote::report::EventKind;
use harness::{GIB, MIB, Outcome, Run, stage};

fn ask(question: &str, preloaded: bool) -> Run {
    Run::new("capi_cases").arg(stage().join("libcenote.so")).arg(question).preload(preloaded)
}

fn refusals(outcome: &Outcome) -> Vec<Option<u64>> {
    let events = outcome.report().events.iter();
    let refused = events.filter(|event| event.kind == EventKind::OutOfMemory);
    refused.map(|event| event.requested_bytes).collect()
}

// C09, pytorch #50185, #20199: what a cycle holds is dead, and the allocator gives up all the same.
#[test]
fn a_collector_frees_what_cycles_hold() {
    for preloaded in [false, true] {
        let outcome = ask("cycles", preloaded).arg("collector").conf("limit:1GiB").run().ok();
        assert_eq!(outcome.value("made"), 100);
        assert_eq!(outcome.value("collections"), 6, "after 16, 32, 48, 64, 80 and 96");
        assert_eq!((outcome.value("live_at_last"), outcome.value("reserved_at_last")), (0, 0));
        if preloaded {
            assert_eq!(refusals(&outcome), [], "nobody was refused");
        }
    }
}

#[test]
fn without_a_collector_the_refusal_is_told() {
    for preloaded in [false, true] {
        let outcome = ask("cycles", preloaded).arg("none").conf("limit:1GiB").run().ok();
        assert_eq!((outcome.value("made"), outcome.value("live")), (16, 16));
        assert_eq!((outcome.value("live_at_last"), outcome.value("reserved_at_last")), (0, 0));
        if preloaded {
            assert_eq!(refusals(&outcome), [Some(67_108_864)]);
        }
    }
}

// C34 (d), (e), hypre #777: a program that sees no free memory chooses tiny workspaces, or refuses to start.
#[test]
fn what_the_engine_keeps_is_free() {
    for conf in ["", "limit:16GiB"] {
        let outcome = ask("info", true).conf(conf).run().ok();
        assert_eq!((outcome.value("live"), outcome.value("cached")), (4 * GIB, 0), "{conf}");
        assert_eq!(outcome.value("kept"), 4 * GIB, "it is kept: {conf}");
        assert_eq!(outcome.value("reserved"), 0, "and given back when it is asked for: {conf}");
        let total = if conf.is_empty() { 80 * GIB } else { 16 * GIB };
        for when in ["first", "live", "cached"] {
            assert_eq!(outcome.value(&format!("total_{when}")), total, "{conf}");
        }
    }
}

// C34 (a), HAMi #1370: the context alone takes more than the limit.
#[test]
fn a_limit_below_the_context_counts_what_is_allocated() {
    for preloaded in [false, true] {
        let run = ask("card", preloaded).arg("256").conf("limit:256MiB");
        let outcome = run.env("SIMCUDA_CONTEXT_BYTES", (345 * MIB).to_string()).run().ok();
        assert_eq!((outcome.value("limit"), outcome.value("reserved")), (256 * MIB, 256 * MIB));
        if preloaded {
            assert_eq!((outcome.value("free"), outcome.value("total_full")), (0, 268_435_456));
        }
    }
}

// C34 (b), HAMi-core PR 81: a library plans with memory that does not exist.
#[test]
fn a_limit_above_the_card_is_the_card() {
    for preloaded in [false, true] {
        let run = ask("card", preloaded).arg("14916").conf("limit:15360MiB");
        let outcome = run.env("SIMCUDA_CAPACITY", (14916 * MIB).to_string()).run().ok();
        assert_eq!((outcome.value("limit"), outcome.value("reserved")), (14916 * MIB, 14916 * MIB));
    }
}

// C34 (f), exllamav3 PR 293: own memory subtracted twice.
#[test]
fn free_and_own_stay_the_same_sum() {
    for conf in ["", "limit:16GiB"] {
        let caps = ask("caps", true).conf(conf).run().ok().values("cap");
        assert_eq!(caps.len(), 3);
        assert!(caps.iter().all(|&cap| cap == caps[0]), "{conf}: {caps:?}");
    }
}

// C35 (a), (e), HAMi #1181: a counter below zero read as 17 TB, and everything was refused. (b) is in `capi`.
#[test]
fn two_hundred_rounds_under_a_limit_never_fail() {
    for preloaded in [false, true] {
        let outcome = ask("churn", preloaded).conf("limit:512MiB").run().ok();
        assert_eq!((outcome.value("live"), outcome.value("unchanged")), (0, 1));
        assert!(outcome.value("peak") <= 512 * MIB);
    }
}

// C35 (f), kvcached #364, #430: a step failed after the allocation, and the entry stayed.
#[test]
fn a_call_that_fails_leaves_nothing_charged() {
    let faults = ["cuMemCreate:3=2", "cuMemCreate:3=999", "cuMemMap:3=999", "cuMemSetAccess:3=999"];
    for fault in faults {
        for preloaded in [false, true] {
            let run = ask("faults", preloaded).conf("limit:512MiB").env("SIMCUDA_FAIL", fault);
            let outcome = run.run().ok();
            assert_eq!((outcome.value("back"), outcome.value("reserved")), (1, 0), "{fault}");
            let is_fatal = !fault.ends_with("=2");
            assert_eq!(outcome.value("failed"), u64::from(is_fatal), "{fault}");
        }
    }
}

// C35 (d), HAMi-core #310, #306: the device was that of the current context.
#[test]
fn a_free_counts_on_the_device_of_the_block() {
    for preloaded in [false, true] {
        let outcome = ask("devices", preloaded).env("SIMCUDA_DEVICES", "2").run().ok();
        assert_eq!((outcome.value("first_0"), outcome.value("first_1")), (32 * MIB, 64 * MIB));
        assert_eq!((outcome.value("second_0"), outcome.value("second_1")), (0, 64 * MIB));
        assert_eq!(outcome.value("reserved_1"), 64 * MIB);
    }
}

// Each way in gives back what it keeps for the other's request, while it has locks of its own.
#[test]
fn both_ways_in_share_a_limit_at_once() {
    let outcome = ask("beside", true).conf("limit:96MiB").run().ok();
    assert_eq!((outcome.value("live"), outcome.value("done")), (0, 1));
}
