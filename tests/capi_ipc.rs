//! Memory of the engine in other processes and on other devices, through the C API: opened as ctypes does, without and with the
//! preload.

mod harness;

use harness::{GIB, Outcome, Run, stage};

fn ask(question: &str, preloaded: bool) -> Run {
    let library = stage().join("libcenote.so");
    Run::new("capi_ipc").arg(library).arg(question).preload(preloaded)
}

fn both_ways(question: &str, check: impl Fn(&Outcome)) {
    for preloaded in [false, true] {
        check(&ask(question, preloaded).run().ok());
    }
}

#[test]
fn a_ticket_opens_the_memory_that_it_was_made_for_or_nothing() {
    both_ways("pair", |outcome| {
        assert_eq!((outcome.value("right"), outcome.value("written")), (3, 3));
        assert_eq!(outcome.value("same"), 1, "opened twice");
        // The virtual clock of the consumer stands still between the launch and the close.
        assert_eq!((outcome.value("kept"), outcome.value("unmapped")), (0, 3));
        assert_eq!(outcome.value("gone"), 400);
    });
}

#[test]
fn a_process_that_has_ended_shares_nothing() {
    both_ways("ended", |outcome| assert_eq!(outcome.value("ended"), 304));
}

#[test]
fn every_wrong_call_has_its_code() {
    both_ways("codes", |outcome| assert_eq!(outcome.value("export"), 0));
}

#[test]
fn memory_that_the_driver_cannot_export_is_still_memory() {
    let outcome = ask("codes", false).without("SIMCUDA_SHARED").run().ok();
    assert_eq!(outcome.value("export"), 801);
    // A driver that says it can and then refuses: from the first memory on.
    let outcome = ask("codes", false).env("SIMCUDA_FAIL", "cuMemCreate:1=801").run().ok();
    assert_eq!(outcome.value("export"), 801);
}

#[test]
fn no_descriptor_stays_behind() {
    both_ways("files", |outcome| assert_eq!(outcome.value("after"), outcome.value("before")));
}

#[test]
fn a_close_breaks_no_capture_and_a_forked_child_hangs_nowhere() {
    let run = ask("capture", true).env("SIMCUDA_STRICT_FORK", "1");
    let outcome = run.run().ok();
    assert_eq!((outcome.value("during"), outcome.value("afterwards")), (0, 1));
    assert_eq!(outcome.value("child"), 0);
}

#[test]
fn without_context_events_a_close_waits() {
    let outcome = ask("files", true).old_driver().run().ok();
    assert_eq!(outcome.value("after"), outcome.value("before"));
}

#[test]
fn another_device_may_use_what_is_there_and_what_comes() {
    for preloaded in [false, true] {
        let run = ask("peers", preloaded).env("SIMCUDA_DEVICES", "2");
        let outcome = run.env("SIMCUDA_CAPACITY", GIB.to_string()).run().ok();
        assert_eq!(outcome.value("right"), 4);
    }
}
