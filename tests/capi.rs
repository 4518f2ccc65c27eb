//! The C API and the entry points of PyTorch's pluggable allocator: opened as ctypes does, without and with the preload. Cases C24,
//! C31, C32.

mod harness;

use cenote::ledger::Kind;
use cenote::report::EventKind;
use harness::{GIB, MIB, Outcome, Run, live, stage};

/// A question of a program, with the library opened; also preloaded, or not.
fn ask(program: &str, question: &str, preloaded: bool) -> Run {
    let library = stage().join("libcenote.so");
    Run::new(program).arg(library).arg(question).preload(preloaded)
}

fn both_ways(program: &str, question: &str, check: impl Fn(&Outcome)) {
    for preloaded in [false, true] {
        check(&ask(program, question, preloaded).run().ok());
    }
}

#[test]
fn every_wrong_call_has_its_code() {
    both_ways("capi_numbers", "codes", |outcome| {
        assert_eq!(outcome.value("before_init"), 3);
        assert_eq!((outcome.value("invalid_frees"), outcome.value("live")), (3, 0));
        assert_eq!(outcome.stderr, "");
    });
}

// C31; pytorch #153109: a stale size must not decide what is freed.
#[test]
fn the_pointer_decides_what_is_freed() {
    both_ways("capi_numbers", "sizes", |outcome| {
        assert_eq!((outcome.value("mismatches"), outcome.value("neighbour")), (2, 1));
        assert_eq!((outcome.value("mismatches_at_last"), outcome.value("live")), (2, 0));
    });
}

// C24; onnxruntime #12289, quadrants PR 847, cudf #2915, cupy PR 3219.
#[test]
fn addresses_are_aligned_and_apart() {
    both_ways("capi_numbers", "addresses", |outcome| {
        let sizes = [1, 100, 256, 300, 513, 4097, 1_048_832, 2 * MIB, 3 * MIB];
        assert_eq!(outcome.value("requested"), sizes.iter().sum::<u64>());
        assert_eq!(outcome.value("blocks"), 9);
    });
}

// C32 (2); pytorch #133281.
#[test]
fn peaks_can_be_reset() {
    both_ways("capi_numbers", "peaks", |outcome| {
        assert_eq!(outcome.value("peak"), 104_857_600);
        assert_eq!(outcome.value("current"), 41_943_040);
        assert_eq!(outcome.value("allocated"), 340 * MIB);
    });
}

// What PyTorch's users set, by CENOTE_CONF: 100 MiB are 128 then, and 40 are 48.
#[test]
fn sizes_are_rounded_as_configured() {
    for preloaded in [false, true] {
        let rounded = |question| {
            let run = ask("capi_numbers", question, preloaded);
            run.conf("roundup_power2_divisions:[64:1],max_split_size_mb:20").run().ok()
        };
        let outcome = rounded("peaks");
        assert_eq!((outcome.value("peak"), outcome.value("current")), (100 * MIB, 40 * MIB));
        let halves = ask("capi_numbers", "peaks", preloaded).conf("roundup_power2_divisions:2");
        let outcome = halves.run().ok();
        assert_eq!((outcome.value("peak"), outcome.value("current")), (128 * MIB, 48 * MIB));
        assert_eq!(rounded("sizes").value("mismatches_at_last"), 2);
    }
}

#[test]
fn older_and_newer_headers_work() {
    both_ways("capi_numbers", "versions", |outcome| {
        assert_eq!(outcome.value("marks"), 2);
        assert_eq!(outcome.value(&format!("version_{}", env!("CARGO_PKG_VERSION"))), 1);
    });
}

#[test]
fn a_block_goes_to_its_own_stream_at_once_and_to_no_other_early() {
    both_ways("capi_streams", "order", |outcome| {
        assert_eq!((outcome.value("same"), outcome.value("other")), (1, 0));
        assert_eq!(outcome.value("right"), 1);
    });
}

#[test]
fn a_block_waits_for_the_streams_that_use_it() {
    both_ways("capi_streams", "uses", |outcome| {
        assert_eq!((outcome.value("early"), outcome.value("reserved")), (0, 0));
    });
}

#[test]
fn threads_count_to_the_byte() {
    both_ways("capi_streams", "threads", |outcome| {
        assert_eq!((outcome.value("live"), outcome.value("blocks")), (0, 0));
        assert_eq!(outcome.value("allocated"), 8 * 20_000 + 100);
    });
}

// pytorch's hooks: without them, memory freed after the capture is handed out, and a replay writes into it.
#[test]
fn what_a_capture_allocates_stays_with_its_graph() {
    both_ways("capi_streams", "capture", |outcome| {
        assert_eq!((outcome.value("reused_inside"), outcome.value("kept")), (1, 1));
        assert_eq!((outcome.value("right"), outcome.value("live")), (1, 0));
    });
}

#[test]
fn out_of_memory_asks_the_program_first() {
    for preloaded in [false, true] {
        let run = ask("capi_limits", "full", preloaded);
        let outcome = run.env("SIMCUDA_CAPACITY", (512 * MIB).to_string()).run().ok();
        assert_eq!(outcome.value("fit"), 16, "all of the card");
        assert_eq!((outcome.value("asked"), outcome.value("gave")), (1, 1));
        assert_eq!(outcome.value("refused_inside"), 1);
        assert_eq!((outcome.value("ooms"), outcome.value("reserved")), (1, 0));
    }
}

// pytorch #133280: a null for memory becomes a tensor at address 0.
#[test]
fn out_of_memory_may_be_an_exception() {
    for preloaded in [false, true] {
        let library = stage().join("libcenote.so");
        let outcome = Run::new("capi_throw").arg(library).preload(preloaded).run().ok();
        assert_eq!((outcome.value("caught"), outcome.value("block")), (100, 1));
        assert_eq!(outcome.value("nothing"), 1);
    }
}

#[test]
fn the_configured_limit_holds_and_can_be_changed() {
    for preloaded in [false, true] {
        let outcome = ask("capi_limits", "limit", preloaded).conf("limit:512MiB").run().ok();
        assert_eq!((outcome.value("fit"), outcome.value("limit")), (16, 512 * MIB));
    }
    let half = "per_process_memory_fraction:0.5";
    let run = ask("capi_limits", "limit", false).conf(half);
    let outcome = run.env("SIMCUDA_CAPACITY", GIB.to_string()).run().ok();
    assert_eq!(outcome.value("fit"), 16);
}

#[test]
fn pytorch_sets_the_fraction_and_empties_the_cache() {
    for preloaded in [false, true] {
        let run = ask("capi_limits", "fraction", preloaded);
        let outcome = run.env("SIMCUDA_CAPACITY", GIB.to_string()).run().ok();
        assert_eq!((outcome.value("half"), outcome.value("fit")), (1, 16));
        assert_eq!((outcome.value("base"), outcome.value("foreign_base")), (1, 1));
        assert_eq!(outcome.value("reserved"), 0);
    }
}

#[test]
fn no_byte_is_counted_twice() {
    let outcome = ask("capi_limits", "both", true).run().ok();
    assert_eq!((outcome.value("used"), outcome.value("reserved")), (96 * MIB, 64 * MIB));
    assert_eq!(live(outcome.report()), 96 * MIB, "what the doors saw, and what the engine holds");
    assert_eq!(outcome.device(0).memory.by_kind[&Kind::Vmm].bytes, 64 * MIB);
}

// The account of a refusal is what a user of the preload gets for any other call.
#[test]
fn a_refusal_is_in_the_report() {
    let run = ask("capi_limits", "fraction", true);
    let outcome = run.env("SIMCUDA_CAPACITY", GIB.to_string()).run().ok();
    let events = &outcome.report().events;
    let refused = events.iter().filter(|event| event.kind == EventKind::OutOfMemory);
    assert!(refused.count() > 0, "{events:?}");
}

#[test]
fn the_preload_and_the_engine_share_one_limit() {
    let outcome = ask("capi_limits", "shared", true).conf("limit:128MiB").run().ok();
    assert_eq!(outcome.value("reserved"), 0);
}

#[test]
fn an_exit_handler_may_allocate_and_free_without_the_driver() {
    for preloaded in [false, true] {
        let outcome =
            ask("capi_life", "exit", preloaded).env("SIMCUDA_STRICT_EXIT", "1").run().ok();
        assert_eq!((outcome.value("hit_at_exit"), outcome.value("miss_at_exit")), (1, 4));
        assert_eq!((outcome.value("free_at_exit"), outcome.value("trim_at_exit")), (0, 0));
    }
}

#[test]
fn a_forked_child_touches_nothing() {
    for preloaded in [false, true] {
        let run = ask("capi_life", "fork", preloaded);
        assert_eq!(run.env("SIMCUDA_STRICT_FORK", "1").run().ok().value("child"), 0);
    }
}

#[test]
fn a_thread_may_outlive_the_last_handle_of_the_library() {
    both_ways("capi_life", "close", |outcome| assert_eq!(outcome.value("live"), 0));
}
