//! Frees that do not belong: the pointer decides who owns it, never the moment or the caller. Case C18.

mod harness;

use cenote::report::{Event, EventKind, Report};
use harness::{MIB, Run};

fn events(report: &Report, kind: EventKind) -> Vec<&Event> {
    report.events.iter().filter(|event| event.kind == kind).collect()
}

/// Names of the functions in a stack that the symbol table knows.
fn symbols<'a>(report: &'a Report, stack: &[u32]) -> Vec<&'a str> {
    stack.iter().filter_map(|&frame| report.frames[frame as usize].symbol.as_deref()).collect()
}

// C18 (a); NVIDIA/cub #329: the block entered the free list twice, and one address had two owners.
#[test]
fn a_double_free_is_refused_and_names_both_frees_and_the_allocation() {
    for bytes in ["512", "8388608"] {
        let outcome = Run::new("double_free").arg(bytes).conf("free_stacks:true").run().ok();
        assert_eq!(outcome.value("second"), 1);
        assert_eq!(outcome.value("differ"), 1);
        let report = outcome.report();
        let [event] = events(report, EventKind::DoubleFree)[..] else {
            panic!("{:?}", report.events)
        };
        assert!(
            event.address.as_deref().is_some_and(|address| address.starts_with("0x")),
            "{event:?}"
        );
        assert!(
            symbols(report, &event.stack).contains(&"free_again"),
            "{:?}",
            symbols(report, &event.stack)
        );
        assert!(
            symbols(report, &event.freed_at).contains(&"free_here"),
            "{:?}",
            symbols(report, &event.freed_at)
        );
        let allocated = symbols(report, &event.allocated_at);
        assert!(allocated.contains(&"allocate_here"), "{allocated:?}");
        assert!(!event.text.contains("free_stacks"), "{}", event.text);
        assert_eq!((outcome.pool().live_bytes, outcome.pool().live_blocks), (0, 0));
    }
}

// The first walk of a stack costs more than the free of a block that a kernel still uses may take.
#[test]
fn a_free_walks_no_stack_unless_it_is_asked_to() {
    let outcome = Run::new("double_free").arg("512").run().ok();
    let [event] = events(outcome.report(), EventKind::DoubleFree)[..] else {
        panic!("{:?}", outcome.report().events)
    };
    assert!(event.freed_at.is_empty(), "{event:?}");
    assert!(symbols(outcome.report(), &event.stack).contains(&"free_again"));
    assert!(event.text.contains("free_stacks:true"), "{}", event.text);
}

// The second free is a mistake of the program on a plain driver too; cenote must not pass it on, where it would free a cached
// block: the driver would see a free of memory that is no live allocation.
#[test]
fn a_double_free_never_reaches_the_driver() {
    let outcome = Run::new("double_free").arg("8388608").env("SIMCUDA_STRICT_FREE", "1").run().ok();
    assert_eq!(outcome.value("second"), 1);
    assert_eq!(outcome.calls("cuMemFree_v2"), 0);
}

// C18 (b)
#[test]
fn a_pointer_into_a_block_is_refused_and_the_block_left_alone() {
    let outcome = Run::new("interior_free").run().ok();
    for name in ["small", "large", "odd"] {
        assert_eq!(outcome.value(name), 1, "{name}");
    }
    assert_eq!(outcome.value("right"), 1);
    assert_eq!((outcome.value("free_small"), outcome.value("free_large")), (0, 0));
    assert_eq!(events(outcome.report(), EventKind::InteriorFree).len(), 3);
    assert_eq!(outcome.pool().live_bytes, 0);
}

// C18 (c), (e), C35 (e); HAMi-core #257, #67, #93, #217, #306: frees of unknown pointers failed with -1.
#[test]
fn a_foreign_pointer_gets_the_drivers_answer_and_no_counter_moves() {
    let hooked = Run::new("foreign_free").run().ok();
    let plain = Run::new("foreign_free").preload(false).run().ok();
    assert_eq!(hooked.stdout, plain.stdout);
    assert_eq!(hooked.value("null"), 0);
    let memory = &hooked.device(0).memory;
    assert!(memory.by_kind.values().all(|live| live.bytes == 0 && live.blocks == 0), "{memory:?}");
    assert!(hooked.report().events.is_empty(), "{:?}", hooked.report().events);
}

// interposition 3.3: both directions between the plain and the stream-ordered calls are accepted by the driver.
#[test]
fn a_pooled_pointer_may_be_freed_in_stream_order() {
    for run in [Run::new("async_free"), Run::new("async_free").old_driver()] {
        let outcome = run.run().ok();
        assert_eq!(outcome.value("double"), 1, "the block is free from the call on");
        assert_eq!(outcome.value("right"), 1);
        assert_eq!(outcome.value("reverse"), 0);
        let memory = &outcome.device(0).memory;
        assert!(memory.by_kind.values().all(|live| live.bytes == 0), "{memory:?}");
    }
}

// C18 (d); HAMi-core #310, #172, #187, #188; C35 (d): the device is that of the allocation, and a thread needs no context.
#[test]
fn memory_goes_down_on_the_device_of_its_allocation() {
    let outcome = Run::new("free_elsewhere").env("SIMCUDA_DEVICES", "2").run().ok();
    assert_eq!(outcome.device(0).memory.by_kind.values().map(|live| live.bytes).sum::<u64>(), 0);
    assert_eq!(
        outcome.device(1).memory.by_kind.values().map(|live| live.bytes).sum::<u64>(),
        16 * MIB
    );
    assert_eq!(
        (outcome.device(0).pool.live_bytes, outcome.device(1).pool.live_bytes),
        (0, 16 * MIB)
    );
    assert_eq!(outcome.device(0).memory.peak_live_bytes, 32 * MIB);
}

// C18 (d): taken through the driver itself, freed through a hook; the driver's it stays. (The other order, a pooled block
// freed past the hooks, nobody can catch.)
#[test]
fn memory_taken_past_the_hooks_is_freed_at_the_driver() {
    let plugin = harness::native("plugin");
    let outcome = Run::new("plugin_host").arg("deepbind").arg(plugin).run().ok();
    assert_eq!(outcome.value("free"), 0);
    assert!(
        outcome.stdout.contains("plugin libcuda.so.1"),
        "deepbind is the known gap: {}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("host libcenote.so"), "{}", outcome.stdout);
}

// mpich PR 6853: the free hook ran before anything was set up.
#[test]
fn the_first_call_may_be_a_free() {
    let hooked = Run::new("first_free").run().ok();
    let plain = Run::new("first_free").preload(false).run().ok();
    assert_eq!(hooked.stdout, plain.stdout);
    assert_eq!(hooked.value("some"), 3);
}

// HAMi-core #333, #234, #321: NULL for an output that the caller does not want.
#[test]
fn a_null_output_is_no_crash() {
    let hooked = Run::new("null_arguments").run().ok();
    let plain = Run::new("null_arguments").preload(false).run().ok();
    assert_eq!(hooked.stdout, plain.stdout);
    assert_eq!(hooked.value("info_no_total"), 0);
}

// interposition 3.2: the codes of the usual mistakes, and 0 in the output of an allocation that failed.
#[test]
fn codes_are_the_drivers_own() {
    let hooked = Run::new("codes").with_violations().run().ok();
    let plain = Run::new("codes").with_violations().preload(false).run().ok();
    assert_eq!(hooked.stdout, plain.stdout);
    assert_eq!(hooked.value("hit_without_context"), 201);
    // The stand-in complains about the program's two calls without a context; cenote adds no third.
    assert_eq!(
        hooked.violations.lines().count(),
        plain.violations.lines().count(),
        "{}",
        hooked.violations
    );
}
