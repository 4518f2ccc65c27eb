//! Beside other preloads: allocators, other hooks of the driver, other hooks of dlsym, before and after us.

mod harness;

use harness::{Run, native};

// redhook #15, #19, rust #130210, heaptrack: an allocator that looks functions up from inside malloc, so dlsym is called before
// anything of ours could have been set up, and a malloc in the dlsym hook recurses.
#[test]
fn an_allocator_that_calls_dlsym_from_malloc_works() {
    let allocator = native("allocator");
    for first in [true, false] {
        let with = |run: Run| if first { run.before(&allocator) } else { run.after(&allocator) };
        let outcome = with(Run::new("loop").arg("20")).run().ok();
        assert_eq!((outcome.value("driver_allocations"), outcome.pool().allocations), (1, 20));
        with(Run::new("threads").args(["8", "20"])).run().ok();
        with(Run::program("/bin/true")).run().ok();
        let outcome = with(Run::program("/bin/bash").args(["-c", "echo hello | cat"])).run().ok();
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("hello\n", ""));
    }
}

// Another tool that exports cuMemAlloc_v2 and calls the next one.
#[test]
fn another_export_of_the_same_name_works_in_both_orders() {
    let other = native("other_export");
    let outcome = Run::new("loop").arg("20").before(&other).run().ok();
    assert_eq!((outcome.value("other_allocs"), outcome.value("other_frees")), (20, 20));
    assert_eq!(
        (outcome.value("driver_allocations"), outcome.pool().allocations),
        (1, 20),
        "it called us next"
    );
    let outcome = Run::new("loop").arg("20").after(&other).run().ok();
    // We call the driver, not whoever has its names: the other one sees nothing, and nothing is counted twice.
    assert_eq!((outcome.value("other_allocs"), outcome.pool().allocations), (0, 20));
    let preloads = &outcome.report().coverage.other_preloads;
    assert!(preloads.iter().any(|path| path.ends_with("other_export")), "{preloads:?}");
}

// Another dlsym, as HAMi-core has it. Both calling each other in a circle was the failure.
#[test]
fn another_dlsym_works_in_both_orders() {
    let other = native("other_dlsym");
    for how in ["v2", "v1", "names"] {
        let outcome = Run::new("runtime_like").arg(how).after(&other).run().ok();
        let (ours, theirs) = (outcome.pool().allocations, outcome.value("other_allocs"));
        assert_eq!((ours, outcome.pool().live_bytes), (1, 1_048_576), "{how}");
        assert!(theirs <= 1, "{how}");
    }
    // In front of us it finds the C library's dlsym by version and passes ours by: cenote sees what does not come through
    // there. The job works, and nothing is counted twice.
    for how in ["v2", "v1", "names"] {
        let outcome = Run::new("runtime_like").arg(how).before(&other).run().ok();
        assert!(
            outcome
                .reports
                .iter()
                .all(|report| report.devices[0].memory.peak_live_bytes <= 1_048_576),
            "{how}"
        );
    }
    let outcome = Run::new("loop").arg("20").before(&other).run().ok();
    assert_eq!(
        outcome.pool().allocations,
        20,
        "a program that is linked with the driver comes through the exports"
    );
    Run::program("/bin/bash").args(["-c", "echo hello"]).before(&other).run().ok();
    Run::program("/bin/bash").args(["-c", "echo hello"]).after(&other).run().ok();
}

// interposition 2.3: the mere export makes `if (cuMemAlloc_v2)` true on a host without a driver; every name must answer
// "not initialised" then.
#[test]
fn without_a_driver_every_export_answers_not_initialised() {
    let exports =
        std::fs::read_to_string(harness::repository().join("scripts/exports.txt")).unwrap();
    let names: Vec<_> = exports.lines().filter(|line| line.starts_with("cu")).collect();
    assert!(names.len() > 40);
    let plain = Run::new("weak").no_driver().preload(false).run().ok();
    assert_eq!(plain.value("there"), 0);
    let outcome = Run::new("weak").args(&names).no_driver().run().ok();
    for call in ["alloc", "free", "info", "lookup"] {
        assert_eq!(outcome.value(call), 3, "{call}");
    }
    for name in names {
        assert_eq!(outcome.value(name), 3, "{name}");
        assert_eq!(
            outcome.value(&format!("lookup_{name}")),
            0,
            "{name}: dlsym does not answer where there is no driver"
        );
    }
    assert!(outcome.reports.iter().all(|report| report.devices.is_empty()), "{:?}", outcome.files);
}
