//! fork, vfork, exec and spawn. Case C21.

mod harness;

use harness::{MIB, Run, live};

// C21 (a); pytorch #190708, vLLM #32611: whoever calls cuInit in a constructor breaks every forked child.
#[test]
fn a_child_forked_before_cuda_starts_may_use_it() {
    let outcome = Run::new("fork_before").env("SIMCUDA_STRICT_FORK", "1").run().ok();
    assert_eq!(
        (outcome.value("threads"), outcome.value("inits"), outcome.value("status")),
        (1, 0, 0)
    );
    assert_eq!(outcome.reports.len(), 2, "{:?}", outcome.files);
    assert_eq!(live(outcome.report_of(outcome.value("child"))), 2 * MIB);
    assert_eq!(live(outcome.report_of(outcome.pid.into())), 5 * MIB);
}

// C21 (b); returnn #1494, pycuda #137: a child's collector frees what it inherited. Passed on, each free is answered 3 and
// counted as a call in a forked child.
#[test]
fn frees_of_inherited_memory_do_nothing() {
    let outcome = Run::new("fork_after").arg("keep").env("SIMCUDA_STRICT_FORK", "1").run().ok();
    assert_eq!(outcome.values("child_free"), [0; 4]);
    assert_eq!((outcome.value("child_driver_frees"), outcome.value("status")), (0, 0));
    assert_eq!(live(outcome.report_of(outcome.pid.into())), 4_194_304);
    // The child used no CUDA of its own: it may have a report, but none that lists what it inherited.
    for report in outcome.reports.iter().filter(|report| report.process.pid != outcome.pid) {
        assert_eq!(live(report), 0);
    }
    assert!(outcome.left_in("pages").is_empty(), "{:?}", outcome.left_in("pages"));
}

#[test]
fn a_child_does_not_take_the_parents_files_with_it() {
    let outcome = Run::new("fork_after").arg("free").env("SIMCUDA_STRICT_FORK", "1").run().ok();
    let report = outcome.report_of(outcome.pid.into());
    assert_eq!(live(report), 0);
    assert_eq!(report.devices[0].memory.peak_live_bytes, 4 * MIB);
}

// C21 (c); bytehound #124: a lock that was held at fork hangs the child.
#[test]
fn a_fork_while_others_allocate_does_not_hang() {
    let outcome = Run::new("fork_busy").arg("50").env("SIMCUDA_STRICT_FORK", "1").run().ok();
    assert_eq!(outcome.value("forks"), 50);
    assert!(outcome.value("longest_ms") < 1000, "{} ms", outcome.value("longest_ms"));
    assert_eq!(outcome.reports.len(), 1, "{:?}", outcome.files);
}

// The new program has the same process id: both have their numbers.
#[test]
fn an_exec_keeps_both_programs_apart() {
    let run = Run::new("exec").arg("exec").arg(harness::native("exit")).arg("return");
    let fixed = run.folder().join("out/report-%p.json");
    let outcome = run.env("CENOTE_OUTPUT", fixed).run().ended_with(7);
    assert_eq!(live(outcome.report()), 7 * MIB);
    assert_eq!(outcome.left_in("pages").len(), 1, "the page of the program before");
    let outcome = outcome.recover();
    let mut all: Vec<_> = outcome.reports.iter().map(live).collect();
    all.sort_unstable();
    assert_eq!(all, [3 * MIB, 7 * MIB], "{:?}", outcome.files);
}

#[test]
fn a_child_that_execs_has_its_own_report() {
    for how in ["vfork", "spawn"] {
        let run = Run::new("exec").arg(how).arg(harness::native("exit")).arg("return");
        let outcome = run.run().ok();
        assert_eq!(outcome.value("status"), 7, "{how}");
        assert_eq!(outcome.reports.len(), 2, "{how}: {:?}", outcome.files);
        assert_eq!(
            live(outcome.report_of(outcome.pid.into())),
            7 * MIB,
            "{how}: 3 before and 4 after"
        );
        let mut all: Vec<_> = outcome.reports.iter().map(live).collect();
        all.sort_unstable();
        assert_eq!(all, [7 * MIB, 7 * MIB], "{how}");
        assert!(outcome.left_in("pages").is_empty(), "{how}: {:?}", outcome.left_in("pages"));
    }
}

// The child of vfork runs in the parent's memory: its _exit must not write, or close, the parent's books.
#[test]
fn an_exec_that_fails_after_vfork_leaves_the_parent_alone() {
    let outcome = Run::new("exec").args(["vfork_fails", "unused"]).run().ok();
    assert_eq!(outcome.value("status"), 4);
    assert_eq!(live(outcome.report()), 7 * MIB);
    assert_eq!(outcome.report().process.pid, outcome.pid);
    assert_eq!(outcome.pool().allocations, 2);
}

// A child that uses no CUDA leaves nothing behind, whatever it is.
#[test]
fn a_child_without_cuda_is_silent() {
    let outcome = Run::new("exec").args(["spawn", "/bin/true"]).run().ok();
    assert_eq!((outcome.value("status"), outcome.reports.len()), (0, 1));
}
