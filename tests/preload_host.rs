//! The host around a process: descriptors, folders, limits, signals. What cenote needs may be absent or in use.

mod harness;

use std::path::PathBuf;
use std::process::Command;

use cenote::report::Reason;
use harness::{MIB, Run, live, native, stage};

const LEAK: u64 = 7 * MIB;

// A program that was started with its standard streams closed writes to the first files that are opened: they must not be
// ours.
#[test]
fn the_page_never_takes_a_standard_stream() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let run = |how: &str| {
            let command = format!("exec \"$0\" {how} {closed}");
            Run::program("/bin/bash").arg("-c").arg(command).arg(native("exit")).run()
        };
        let outcome = run("return").ended_with(7);
        assert_eq!(live(outcome.report()), LEAK, "{closed}");
        assert_eq!(outcome.report().process.pid, outcome.pid, "{closed}");
        let outcome = run("kill").killed_by(libc::SIGKILL).recover();
        assert_eq!(
            (live(outcome.report()), outcome.report().process.pid),
            (LEAK, outcome.pid),
            "{closed}"
        );
    }
}

// A daemon closes every descriptor that it did not open: the books go on, and nobody takes the process for dead.
#[test]
fn a_program_that_closes_all_descriptors_keeps_its_books() {
    let mut running = Run::new("wait").args(["600", "close"]).spawn();
    running.wait_for("ready");
    running.recover();
    let outcome = running.wait().ok();
    assert_eq!(outcome.reports.len(), 1, "{:?}", outcome.files);
    assert_eq!((live(outcome.report()), outcome.report().reason), (LEAK, Reason::Exit));
}

#[test]
fn a_running_process_is_not_recovered() {
    let mut running = Run::new("wait").arg("600").spawn();
    running.wait_for("ready");
    running.recover();
    let outcome = running.wait().ok();
    assert_eq!(outcome.reports.len(), 1, "{:?}", outcome.files);
    assert_eq!(outcome.report().reason, Reason::Exit);
}

// The report goes where it was asked for when the program started.
#[test]
fn a_relative_place_is_that_of_the_first_call() {
    let run = Run::new("chdir");
    let elsewhere = run.folder().join("tmp");
    let outcome = run.arg(elsewhere).env("CENOTE_OUTPUT", "here.json").run().ok();
    assert_eq!(outcome.left_in("cwd"), [PathBuf::from("here.json")]);
}

#[test]
fn a_report_comes_at_intervals() {
    let mut running = Run::new("wait").arg("1000").conf("report_every:100ms").spawn();
    running.wait_for("ready");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let reports = running.reports();
    assert_eq!(
        reports.iter().map(|report| (report.reason, live(report))).collect::<Vec<_>>(),
        [(Reason::Interval, LEAK)]
    );
    let outcome = running.wait().ok();
    // The same file, written anew.
    assert_eq!(outcome.report().reason, Reason::Exit);
}

// A job that is cut off in the middle of writing leaves a whole report or none, never a piece.
#[test]
fn an_end_in_the_middle_of_a_report_leaves_no_piece() {
    for _ in 0..10 {
        let mut running = Run::new("wait").arg("5000").conf("report_every:1ms").spawn();
        running.wait_for("ready");
        std::thread::sleep(std::time::Duration::from_millis(160));
        running.signal(libc::SIGKILL);
        let outcome = running.wait().recover();
        assert!(outcome.reports.iter().all(|report| live(report) == LEAK));
        assert!(!outcome.reports.is_empty());
    }
}

// A handler for SIGALRM, SIGTERM or SIGINT that calls _exit: the signal may have come while this very thread holds a lock of
// ours or of malloc. The report may be lost then, the exit not.
#[test]
fn an_exit_in_a_signal_handler_never_hangs() {
    for microseconds in (1..=40).map(|i| i * 500) {
        let outcome = Run::new("exit_in_handler")
            .arg(microseconds.to_string())
            .ends_in_a_call()
            .run()
            .ended_with(7);
        assert!(outcome.elapsed.as_millis() < 5000, "{:?}", outcome.elapsed);
    }
}

// A container at its limit of processes or threads: idle memory then goes back only at the program's own calls.
#[test]
fn without_a_helper_thread_the_job_runs() {
    let outcome = Run::new("loop").arg("20").after(native("no_threads")).run().ok();
    assert_eq!(outcome.value("driver_allocations"), 1);
    assert!(
        outcome.report().notes.iter().any(|note| note.code == "no_helper_thread"),
        "{:?}",
        outcome.report().notes
    );
}

// More devices than the books have room for.
#[test]
fn the_seventeenth_device_is_no_crash() {
    let outcome = Run::new("many_devices").env("SIMCUDA_DEVICES", "20").run().ok();
    assert_eq!(live(outcome.report()), 20 * 1_048_576);
    assert_eq!(outcome.value("count"), 20);
}

// A limit on file sizes would send SIGXFSZ for our files: the job must not die of it.
#[test]
fn a_limit_on_file_sizes_costs_only_the_report() {
    let run = Run::program("/bin/bash")
        .args(["-c", "ulimit -f 4; exec \"$0\" return > /dev/null"])
        .arg(native("exit"));
    run.run().ended_with(7);
}

// The command line that a person types: the job's status is its own.
#[test]
fn cenote_run_gives_the_jobs_status() {
    let run = Run::program(stage().join("cenote"))
        .args(["run", "--"])
        .arg(native("exit"))
        .arg("return")
        .preload(false);
    let outcome = run.run().ended_with(7);
    assert_eq!(live(outcome.report()), LEAK);
    assert!(Command::new(stage().join("cenote")).arg("--version").status().unwrap().success());
}
