//! Contexts die and their handles come back: memory of a dead one is never handed out.

mod harness;

use cenote::report::EventKind;
use harness::{MIB, Run};

// lupine #844, #845, PR 857; CUDA.jl #16: a pool keyed by the handle alone hands out dead pointers after a reset. Keyed by
// the handle, `right` is 0 here and the driver reports work on memory that is no allocation.
#[test]
fn nothing_from_before_a_reset_is_handed_out() {
    for how in ["reset", "release", "destroy"] {
        for run in [Run::new("reset"), Run::new("reset").old_driver()] {
            let outcome = run.arg(how).run().ok();
            if how != "destroy" {
                assert_eq!(
                    outcome.value("same_handle"),
                    1,
                    "{how}: the driver gives the handle again"
                );
            }
            assert_eq!(outcome.value("right"), 1, "{how}");
            // A late free of what the context took with it gets the driver's own answer.
            assert_eq!(
                (outcome.value("late_free"), outcome.value("late_free_small")),
                (1, 1),
                "{how}"
            );
            assert_eq!(outcome.value("forwarded"), 2, "{how}");
        }
    }
}

#[test]
fn what_a_context_took_with_it_is_no_leak_and_no_double_free() {
    let outcome = Run::new("reset").arg("reset").run().ok();
    let report = outcome.report();
    let kinds: Vec<_> = report.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::LostWithContext], "{:?}", report.events);
    assert!(outcome.device(0).leaks.is_empty(), "{:?}", outcome.device(0).leaks);
    let memory = &outcome.device(0).memory;
    assert_eq!(memory.by_kind.values().map(|live| live.bytes).sum::<u64>(), 0);
}

#[test]
fn two_contexts_of_a_device_have_pools_of_their_own() {
    let outcome = Run::new("two_contexts").run().ok();
    assert_eq!((outcome.value("same"), outcome.value("right")), (0, 1));
    assert_eq!(outcome.pool().peak_live_bytes, 4 * MIB);
}

// A context is looked at by the pool only through calls that restore the caller's stack.
#[test]
fn the_callers_context_stack_is_left_as_it_was() {
    let hooked = Run::new("context_stack").env("SIMCUDA_DEVICES", "2").run().ok();
    let plain = Run::new("context_stack").env("SIMCUDA_DEVICES", "2").preload(false).run().ok();
    assert_eq!(hooked.stdout, plain.stdout);
}

// After a sticky error every call answers it: it is passed on at once, without flushing in circles.
#[test]
fn a_sticky_error_is_passed_on() {
    for call in ["cuMemAlloc_v2:2-=700", "cuMemAlloc_v2:2-=999"] {
        let outcome = Run::new("sticky").env("SIMCUDA_FAIL", call).run().ok();
        let code = call.rsplit('=').next().unwrap().parse().unwrap();
        assert_eq!((outcome.value("alloc"), outcome.value("output")), (code, 0));
        assert_eq!(outcome.value("free"), 1);
        assert!(outcome.value("milliseconds") < 500);
        assert_eq!(
            outcome.calls("cuMemAlloc_v2"),
            2,
            "one try: nothing that cenote holds would help"
        );
        assert_eq!(outcome.pool().out_of_memory, 0);
    }
}

// A context's place in the books is free again only when nothing names it any more.
#[test]
fn contexts_that_come_and_go_at_once_keep_their_blocks_apart() {
    let outcome = Run::new("contexts_race").arg("1500").run().ok();
    assert!(outcome.value("rounds") > 20, "{}", outcome.value("rounds"));
    assert_eq!(outcome.value("refused"), 0);
}

// A release of the primary context that leaves it alive may meet memory on its way to the driver: none is lost.
#[test]
fn a_release_that_ends_nothing_loses_nothing() {
    let outcome = Run::new("retain_release").arg("1000").run().ok();
    assert_eq!((outcome.value("refused"), outcome.value("lost")), (0, 0));
}
