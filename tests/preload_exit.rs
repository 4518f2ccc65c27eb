//! The ways in which a process ends: its status stays, and its report is written once and whole, or can be recovered.
//! Cases C20 and C22.

mod harness;

use std::os::unix::fs::PermissionsExt;

use cenote::report::{LeakClass, Reason};
use harness::{GIB, MIB, Run};

const LEAK: u64 = 7 * MIB;

fn live(outcome: &harness::Outcome) -> u64 {
    outcome.device(0).memory.by_kind.values().map(|live| live.bytes).sum()
}

// bytehound #124, #10, #70: lost data at exit. No call of the driver after exit has begun; its answer would be 4.
#[test]
fn every_orderly_end_writes_the_report() {
    let ends = [
        ("return", Reason::Exit),
        ("exit", Reason::Exit),
        ("thread", Reason::Exit),
        ("_exit", Reason::ImmediateExit),
        ("_Exit", Reason::ImmediateExit),
    ];
    for (how, reason) in ends {
        let outcome = Run::new("exit").arg(how).env("SIMCUDA_STRICT_EXIT", "1").run().ended_with(7);
        let report = outcome.report();
        assert!(report.complete, "{how}");
        assert_eq!((report.reason, live(&outcome)), (reason, LEAK), "{how}");
        assert!(outcome.left_in("pages").is_empty(), "{how}: {:?}", outcome.left_in("pages"));
        let mode = std::fs::metadata(&outcome.files[0]).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{how}");
        assert_eq!(outcome.left_in("out").len(), 1, "{how}: no unfinished file stays");
    }
}

// main leaves by pthread_exit and another thread is the last: a helper thread of ours must not keep the process.
#[test]
fn the_last_thread_writes_the_report() {
    let outcome = Run::new("exit").arg("last_thread").run().ok();
    assert_eq!(live(&outcome), LEAK);
}

// Case C20: an uncaught exception ends in abort, which is hooked.
#[test]
fn an_abort_writes_the_report() {
    let outcome = Run::new("exit").arg("abort").run().killed_by(libc::SIGABRT);
    let report = outcome.report();
    assert!(report.complete);
    assert_eq!((report.reason, live(&outcome)), (Reason::Abort, LEAK));
}

// Case C22, darshan-hpc/darshan PR 978: ends that run no handler. The numbers lie in a file that outlives the process.
#[test]
fn every_other_end_leaves_a_page_to_recover() {
    let ends = [("term", libc::SIGTERM), ("kill", libc::SIGKILL)];
    for (how, signal) in ends {
        let outcome = Run::new("exit").arg(how).run().killed_by(signal);
        assert!(outcome.reports.is_empty(), "{how}: {:?}", outcome.files);
        assert_eq!(outcome.left_in("pages").len(), 1, "{how}");
        let outcome = outcome.recover();
        let report = outcome.report();
        assert!(!report.complete, "{how}");
        assert_eq!((report.reason, live(&outcome)), (Reason::Recovered, LEAK), "{how}");
        assert_eq!(report.process.pid, outcome.pid, "{how}");
        assert!(outcome.left_in("pages").is_empty(), "{how}: {:?}", outcome.left_in("pages"));
    }
}

// An abort may come from the middle of anything: by report or by page, once, and it stays an abort.
#[test]
fn an_abort_loses_nothing() {
    let outcome = Run::new("exit").arg("abort").run().killed_by(libc::SIGABRT).recover();
    assert_eq!(live(&outcome), LEAK);
    assert!(outcome.left_in("pages").is_empty(), "{:?}", outcome.left_in("pages"));
}

// `quick_exit` and a bare system call end the process inside the C library or without it: by report or by page, once.
#[test]
fn quick_exit_and_the_bare_system_call_lose_nothing() {
    for how in ["quick_exit", "raw"] {
        let outcome = Run::new("exit").arg(how).run().ended_with(7).recover();
        assert_eq!(live(&outcome), LEAK, "{how}");
    }
}

// Case C20; LBANN #380, cuvs #1295, darknet #1829: a static object frees after the driver is gone. A report that an exit handler
// writes comes too early, and has the 1 GiB as a leak.
#[test]
fn memory_that_a_static_object_frees_is_no_leak() {
    for how in ["return", "thread"] {
        let run = Run::new("statics").arg(how).env("SIMCUDA_STRICT_EXIT", "1").with_violations();
        let outcome = run.run().ok();
        assert!(
            [0, 4].contains(&outcome.value("late_free")),
            "{how}: success or the driver's code"
        );
        assert!(outcome.value("late_ms") < 100, "{how}");
        // At most the program's own late free may reach the driver, where it is told 4; cenote adds nothing.
        assert!(outcome.violations.lines().count() <= 1, "{how}: {}", outcome.violations);
        assert!(outcome.report().complete, "{how}");
        let leaks = &outcome.device(0).leaks;
        let freed: Vec<_> =
            leaks.iter().filter(|leak| leak.class == LeakClass::FreedDuringExit).collect();
        let others: Vec<_> =
            leaks.iter().filter(|leak| leak.class != LeakClass::FreedDuringExit).collect();
        assert_eq!(
            freed.iter().map(|leak| (leak.bytes, leak.blocks)).collect::<Vec<_>>(),
            [(GIB, 1)],
            "{how}: {leaks:?}"
        );
        assert_eq!(
            others.iter().map(|leak| (leak.bytes, leak.blocks)).collect::<Vec<_>>(),
            [(16 * MIB, 1)],
            "{how}"
        );
    }
}

// Case C20, third end: nobody catches an exception. The status is that of an abort, and the numbers are kept.
#[test]
fn an_uncaught_exception_stays_an_abort() {
    let outcome = Run::new("statics")
        .arg("throw")
        .env("SIMCUDA_STRICT_EXIT", "1")
        .run()
        .killed_by(libc::SIGABRT);
    assert!(outcome.stderr.contains("nobody catches this"));
    let outcome = outcome.recover();
    assert_eq!(live(&outcome), GIB + 16 * MIB);
}

// ZLUDA #404, UCX #11275, THAPI #276, rmm #1371: crash or hang at exit. The driver says 4 to everything from the middle on.
#[test]
fn a_driver_that_is_gone_early_is_no_trouble() {
    let outcome = Run::new("early_shutdown").with_violations().run().ok();
    assert_eq!(outcome.value("alloc"), 4);
    assert!([0, 4].contains(&outcome.value("free")));
    assert!(outcome.report().complete);
}

// Case C22: one fixed path, a family of processes, and nobody overwrites anybody.
#[test]
fn each_process_of_a_family_has_its_own_report() {
    for order in ["parent_last", "parent_first"] {
        let run = Run::new("family").arg(order);
        let fixed = run.folder().join("out/report.json");
        let outcome = run.env("CENOTE_OUTPUT", fixed).run().ok();
        if order == "parent_first" {
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        let outcome = outcome.recover();
        assert_eq!(outcome.reports.len(), 4, "{order}: {:?}", outcome.files);
        for (name, bytes) in [
            ("parent", LEAK),
            ("forked", 15_728_640),
            ("spawned", 15_728_640),
            ("killed", 15_728_640),
        ] {
            let report = outcome.report_of(outcome.value(name));
            let live: u64 = report.devices[0].memory.by_kind.values().map(|live| live.bytes).sum();
            assert_eq!((live, report.complete), (bytes, name != "killed"), "{order} {name}");
        }
    }
}

// A full or forbidden place for the report costs the report, never the job.
#[test]
fn a_report_that_cannot_be_written_is_no_failure() {
    let run = Run::new("exit").arg("return").env("CENOTE_OUTPUT", "/proc/nowhere/report.json");
    run.run().ended_with(7);
    let run = Run::new("exit")
        .arg("return")
        .env("CENOTE_RUNTIME_DIR", "/proc/nowhere")
        .without("XDG_RUNTIME_DIR");
    assert_eq!(live(&run.run().ended_with(7)), LEAK);
}

#[test]
fn the_place_of_the_report_has_placeholders() {
    let run = Run::new("exit").arg("return");
    let wanted = run.folder().join("out/new/folder/%e.%p.%q{NAME}.json");
    let outcome = run.env("CENOTE_OUTPUT", wanted).env("NAME", "x").run().ended_with(7);
    let names = outcome.left_in("out");
    assert_eq!(
        names,
        [std::path::PathBuf::from(format!("new/folder/exit.{}.x.json", outcome.pid))]
    );
}
