//! `trace:FILE`: what programs do under the stand-in driver, recorded and read again.

mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cenote::replay::{Event, Trace};
use harness::{MIB, Outcome, Run, stage};

fn ask(question: &str, preloaded: bool) -> Run {
    let library = stage().join("libcenote.so");
    let run = Run::new("trace_job").arg(library).arg(question).preload(preloaded);
    run.conf("trace:traces/%e-%p.trz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).map(|entries| entries.map(|entry| entry.unwrap().path()));
    let mut files: Vec<_> = entries.into_iter().flatten().collect();
    files.sort();
    files
}

/// The one trace that a run wrote.
fn recorded(outcome: &Outcome) -> Trace {
    let files = files(&outcome.folder("cwd").join("traces"));
    assert_eq!(files.len(), 1, "{files:?}");
    let name = files[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("trace_job-") && !name.contains('%'), "{name}");
    Trace::read(&files[0]).unwrap()
}

fn count(trace: &Trace, of: fn(&Event) -> bool) -> u64 {
    trace.events.iter().filter(|&event| of(event)).count() as u64
}

fn streams(trace: &Trace) -> usize {
    let stream = |event: &Event| match event {
        Event::Allocate { stream, .. } => Some(*stream),
        Event::Free { .. } | Event::Completed { .. } => None,
    };
    trace.events.iter().filter_map(stream).collect::<BTreeSet<_>>().len()
}

/// The trace has what the engine counted.
fn agrees(outcome: &Outcome, trace: &Trace) {
    assert_eq!(trace.peak_live, outcome.value("peak"));
    assert_eq!(u64::from(trace.blocks), outcome.value("allocated"));
    assert_eq!(count(trace, |event| matches!(event, Event::Free { .. })), outcome.value("freed"));
}

#[test]
fn what_the_engine_counted_is_in_the_trace() {
    for preloaded in [false, true] {
        let outcome = ask("api", preloaded).run().ok();
        let trace = recorded(&outcome);
        agrees(&outcome, &trace);
        assert!(!trace.is_cut);
        assert_eq!(streams(&trace), 2);
        assert_eq!(trace.marks.len(), 20);
        assert_eq!(trace.marks[0], (1, "step".to_owned()));
        assert_eq!(
            count(&trace, |event| matches!(event, Event::Completed { .. })),
            outcome.value("freed")
        );
    }
}

#[test]
fn threads_make_one_trace_in_order() {
    let outcome = ask("threads", false).run().ok();
    let trace = recorded(&outcome);
    assert_eq!(u64::from(trace.blocks), outcome.value("allocated"));
    assert_eq!(
        count(&trace, |event| matches!(event, Event::Free { .. })),
        outcome.value("allocated")
    );
    assert_eq!(streams(&trace), 8);
    // Peaks of several threads are not exact in the engine.
    let peak = outcome.value("peak") as f64;
    assert!((0.9..1.1).contains(&(trace.peak_live as f64 / peak)), "{} {peak}", trace.peak_live);
}

#[test]
fn a_block_that_others_use_is_not_said_to_be_done_with() {
    let trace = recorded(&ask("shared", true).run().ok());
    let done: Vec<_> =
        trace.events.iter().filter(|event| matches!(event, Event::Completed { .. })).collect();
    assert_eq!(done, [&Event::Completed { block: 1 }]);
}

#[test]
fn what_comes_through_the_doors_is_recorded() {
    let outcome = ask("driver", true).run().ok();
    let trace = recorded(&outcome);
    assert_eq!((trace.peak_live, trace.blocks), (10 * MIB, 5));
    assert_eq!(trace.peak_live, outcome.device(0).memory.peak_live_bytes);
    // Without the preload nobody sees them: there is no file.
    let unseen = ask("driver", false).run().ok();
    assert!(files(&unseen.folder("cwd").join("traces")).is_empty());
}

#[test]
fn a_killed_process_leaves_what_was_written() {
    for preloaded in [false, true] {
        let outcome = ask("kill", preloaded).run().killed_by(9);
        let trace = recorded(&outcome);
        assert!(trace.is_cut);
        agrees(&outcome, &trace);
    }
}

#[test]
fn a_process_that_ends_at_once_closes_its_trace() {
    let outcome = ask("_exit", true).run().ok();
    let trace = recorded(&outcome);
    agrees(&outcome, &trace);
    assert!(!trace.is_cut);
}

#[test]
fn a_file_that_is_cut_anywhere_is_a_trace_up_to_there() {
    let outcome = ask("kill", false).run().killed_by(9);
    let path = &files(&outcome.folder("cwd").join("traces"))[0];
    let whole = fs::read(path).unwrap();
    let mut last = 0;
    for length in (15..whole.len()).step_by(whole.len() / 12) {
        let cut = path.with_extension("cut");
        fs::write(&cut, &whole[..length]).unwrap();
        let trace = Trace::read(&cut).unwrap();
        assert!(trace.is_cut && trace.events.len() >= last);
        last = trace.events.len();
    }
    assert!(last > 20_000);
}

#[test]
fn a_later_run_replaces_the_trace_of_an_earlier_one() {
    let first = ask("api", false).conf("trace:job.trz");
    let second = ask("api", false).conf("trace:job.trz").beside(&first);
    // The first run's is older than the second process, and is replaced.
    let old = first.run().ok();
    agrees(&old, &Trace::read(&old.folder("cwd").join("job.trz")).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(20));
    let new = second.run().ok();
    agrees(&new, &Trace::read(&new.folder("cwd").join("job.trz")).unwrap());
}

#[test]
fn a_trace_that_can_t_be_written_costs_the_job_nothing() {
    let outcome = ask("api", false).conf("trace:/proc/nowhere/job.trz").run();
    assert!(outcome.stderr.contains("no trace is written to /proc/nowhere/job.trz"));
    outcome.ended_with(0);
}
