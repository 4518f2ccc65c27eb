//! Numbers right to the byte, and who holds them.

mod harness;

use cenote::report::{EventKind, Kind, LeakClass, Report, Site};
use harness::{GIB, MIB, Run};

/// The sites in whose stack a function of the program is.
fn sites_of<'a>(report: &'a Report, function: &str) -> Vec<&'a Site> {
    let is_it = |&frame: &u32| report.frames[frame as usize].symbol.as_deref() == Some(function);
    report.sites.iter().filter(|site| site.stack.iter().any(is_it)).collect()
}

#[test]
fn every_kind_is_counted_as_requested() {
    let outcome = Run::new("by_kind").run().ok();
    let memory = &outcome.device(0).memory;
    let bytes = |kind| memory.by_kind.get(&kind).map_or(0, |live| live.bytes);
    assert_eq!(bytes(Kind::Pooled), 1000 + 5 * MIB);
    assert_eq!(bytes(Kind::Direct), 6 * MIB);
    assert_eq!(bytes(Kind::Managed), 7 * MIB);
    assert_eq!(bytes(Kind::Async), 17 * MIB);
    assert_eq!(bytes(Kind::Vmm), 10 * MIB);
    assert_eq!((outcome.report().host.bytes, outcome.report().host.blocks), (11 * MIB, 1));
    assert_eq!(memory.peak_live_bytes, 45 * MIB + 1000);
    let pool = outcome.pool();
    assert_eq!((pool.live_bytes, pool.live_blocks), (1000 + 5 * MIB, 2));
    // A slab of 2 MiB and a block of 6 MiB: what the driver takes for 5 MiB anyway.
    assert_eq!(pool.reserved_bytes, 8 * MIB);
    assert_eq!(
        memory.by_owner.iter().map(|owner| owner.owner.as_str()).collect::<Vec<_>>(),
        ["program"]
    );
}

// pytorch PR 82146, PR 124784 (case C12, the native half): two functions, one of them on a thread of its own.
#[test]
fn sites_are_told_apart_by_their_native_stack() {
    let outcome = Run::new("sites").run().ok();
    let report = outcome.report();
    let [red] = sites_of(report, "red")[..] else { panic!("{:?}", report.sites) };
    assert_eq!((red.live_bytes, red.live_blocks), (2 * MIB, 2));
    assert_eq!((red.total_bytes, red.total_blocks, red.peak_bytes), (5 * MIB, 5, 5 * MIB));
    assert_eq!(
        red.live_sizes.iter().map(|size| (size.bytes, size.blocks)).collect::<Vec<_>>(),
        [(MIB, 2)]
    );
    let [blue] = sites_of(report, "blue")[..] else { panic!("{:?}", report.sites) };
    assert_eq!((blue.live_bytes, blue.live_blocks, blue.total_blocks), (30_000, 10, 10));
    assert_eq!((red.owner.as_str(), blue.owner.as_str()), ("program", "program"));
    assert!(report.sites.iter().all(|site| !site.stack.is_empty()), "no byte without a frame");
    assert_eq!(
        report.sites.iter().map(|site| site.live_bytes).sum::<u64>(),
        outcome.pool().live_bytes
    );
}

#[test]
fn without_stacks_the_counters_stay_exact() {
    for stacks in ["stacks:off", "stacks:sampled"] {
        let outcome = Run::new("sites").conf(stacks).run().ok();
        let pool = outcome.pool();
        assert_eq!((pool.live_bytes, pool.live_blocks), (2 * MIB + 30_000, 12), "{stacks}");
        assert_eq!(
            outcome.report().sites.iter().map(|site| site.live_bytes).sum::<u64>(),
            pool.live_bytes,
            "{stacks}"
        );
    }
}

// "CUDA out of memory. Tried to allocate ...": request, what is live, what is free, and who holds the rest.
#[test]
fn out_of_memory_says_who_holds_what() {
    for run in [
        Run::new("oom").env("SIMCUDA_CAPACITY", GIB.to_string()),
        Run::new("oom").conf("limit:1GiB"),
    ] {
        let outcome = run.run().ok();
        assert_eq!((outcome.value("code"), outcome.value("output")), (2, 0));
        let report = outcome.report();
        let events: Vec<_> =
            report.events.iter().filter(|event| event.kind == EventKind::OutOfMemory).collect();
        let [event] = events[..] else { panic!("{:?}", report.events) };
        assert_eq!((event.requested_bytes, event.device), (Some(768 * MIB), Some(0)));
        let state = event.state.as_ref().unwrap();
        assert_eq!(state.live_bytes, 640 * MIB);
        // Everything that could be given back was: the 64 MiB of the cache too.
        assert_eq!((state.reserved_bytes, state.largest_free_bytes), (640 * MIB, 0), "{state:?}");
        let holders: Vec<_> =
            event.holders.iter().map(|holder| (holder.bytes, holder.blocks)).collect();
        assert_eq!(holders, [(512 * MIB, 2), (128 * MIB, 1)]);
        let model = sites_of(report, "model");
        assert!(std::ptr::eq(model[0], &report.sites[event.holders[0].site as usize]));
        assert_eq!(outcome.pool().out_of_memory, 1);
        // The request that failed is no allocation: the peak is that of the 128 MiB which came after it.
        assert_eq!(outcome.pool().peak_live_bytes, 768 * MIB);
    }
}

// A site that keeps one more block each step is growing; what was there from the start is not; what is freed is neither.
#[test]
fn a_growing_site_is_told_from_the_start_up() {
    let outcome = Run::new("leak_classes").arg("40").run().ok();
    let report = outcome.report();
    let leaks = &outcome.device(0).leaks;
    let of = |function: &str| {
        let stacks = |site: u32| report.sites[site as usize].stack.iter();
        let is_it =
            |frame: &u32| report.frames[*frame as usize].symbol.as_deref() == Some(function);
        leaks
            .iter()
            .find(|leak| stacks(leak.site).any(is_it))
            .map(|leak| (leak.class, leak.bytes, leak.blocks))
    };
    assert_eq!(of("history"), Some((LeakClass::Growing, 80 * MIB, 40)), "{leaks:?}");
    assert_eq!(of("weights"), Some((LeakClass::StartUp, 16 * MIB, 4)), "{leaks:?}");
    assert_eq!(of("scratch"), None, "{leaks:?}");
}

// C15; UCX #3210, nvshare #11: a call is counted once, whatever door it came through.
#[test]
fn a_runtime_that_looks_everything_up_is_seen_once() {
    for how in ["v2", "v1", "names"] {
        let outcome = Run::new("runtime_like").arg(how).run().ok();
        assert!(outcome.stdout.contains("module libcenote.so"), "{how}: {}", outcome.stdout);
        let pool = outcome.pool();
        assert_eq!(
            (pool.allocations, pool.live_bytes, pool.live_blocks),
            (1, 1_048_576, 1),
            "{how}"
        );
        let leaks: Vec<_> =
            outcome.device(0).leaks.iter().map(|leak| (leak.bytes, leak.blocks)).collect();
        assert_eq!(leaks, [(1_048_576, 1)], "{how}");
        assert_eq!(outcome.report().coverage.calls["cuMemAlloc_v2"], 1, "{how}");
    }
    // A driver from before cuGetProcAddress_v2: the old form and the names are the doors.
    for how in ["v1", "names"] {
        let outcome = Run::new("runtime_like").arg(how).old_driver().run().ok();
        assert_eq!(outcome.pool().live_bytes, 1_048_576, "{how}");
    }
}

#[test]
fn every_door_leads_to_the_same_books() {
    let outcome = Run::new("doors").run().ok();
    let (hooked, all) =
        (outcome.stdout.matches("libcenote.so").count(), outcome.stdout.lines().count());
    assert_eq!((hooked, all), (10, 10), "{}", outcome.stdout);
    let pool = outcome.pool();
    assert_eq!((pool.allocations, pool.frees, pool.live_bytes), (5, 5, 0));
    let doors = &outcome.report().coverage.doors;
    assert!(doors.dlsym >= 3 && doors.get_proc_address >= 4, "{doors:?}");
}
