use super::*;
use crate::settings::Settings;
use crate::violation::in_this_thread;

const CALLS: [(Hazard, [[bool; 2]; 3]); 2] = [
    // Rows: capture mode; columns: the capturing thread, another one. True breaks.
    (Hazard::Unsafe, [[true, true], [true, false], [false, false]]),
    (Hazard::ContextWide { context: 1 }, [[true, true], [true, true], [true, true]]),
];
const MODES: [Mode; 3] = [Mode::Global, Mode::ThreadLocal, Mode::Relaxed];

fn capture(mode: Mode) -> Capture {
    let (nodes, unjoined) = Default::default();
    Capture { mode, thread: 10, context: 1, origin: 5, valid: true, nodes, unjoined, target: None }
}

#[test]
fn the_measured_table() {
    for (hazard, rows) in CALLS {
        for (mode, row) in MODES.into_iter().zip(rows) {
            for (caller, breaks) in [10, 11].into_iter().zip(row) {
                let answer = capture(mode).is_broken_by(1, hazard, caller, Mode::Global);
                assert_eq!(answer, breaks, "{hazard:?} {mode:?} by {caller}");
            }
        }
    }
}

#[test]
fn a_relaxed_thread_may_allocate_but_not_record_the_context() {
    for mode in MODES {
        for caller in [10, 11] {
            assert!(!capture(mode).is_broken_by(1, Hazard::Unsafe, caller, Mode::Relaxed));
            assert!(capture(mode).is_broken_by(
                1,
                Hazard::ContextWide { context: 1 },
                caller,
                Mode::Relaxed
            ));
            assert!(!capture(mode).is_broken_by(
                1,
                Hazard::ContextWide { context: 2 },
                caller,
                Mode::Global
            ));
        }
    }
}

fn machine() -> (Sim, [u64; 2]) {
    let mut sim = Sim::new(Settings::defaults()).unwrap();
    let context = sim.contexts.retain_primary(0);
    let streams = [(); 2].map(|()| sim.timeline.add_stream(context, Role::NonBlocking));
    (sim, streams)
}

#[test]
fn a_broken_capture_stays_broken_and_is_a_violation() {
    let (mut sim, [stream, _]) = machine();
    sim.begin_capture(stream, Mode::Global, None).unwrap();
    let answer = sim.respect_captures(Hazard::Unsafe, "a test");
    assert_eq!(answer, Err(Code::STREAM_CAPTURE_UNSUPPORTED));
    assert_eq!(sim.capture_status(stream), (2, 1));
    assert_eq!(sim.end_capture(stream), Err(Code::STREAM_CAPTURE_INVALIDATED));
    assert_eq!(sim.capture_status(stream), (0, 0));
    assert_eq!(in_this_thread::take(), 1);
    assert_eq!(sim.respect_captures(Hazard::Unsafe, "a test"), Ok(()));
}

#[test]
fn the_legacy_stream_disturbs_only_captures_of_blocking_streams() {
    let (mut sim, [free, _]) = machine();
    let context = sim.contexts.retain_primary(0);
    let legacy = sim.timeline.default_stream(context, Role::Legacy);
    sim.begin_capture(free, Mode::Relaxed, None).unwrap();
    assert_eq!(sim.respect_implicit_order(legacy, "a test"), Ok(()));
    let blocking = sim.timeline.add_stream(context, Role::Blocking);
    sim.begin_capture(blocking, Mode::Relaxed, None).unwrap();
    let answer = sim.respect_implicit_order(legacy, "a test");
    assert_eq!(answer, Err(Code::STREAM_CAPTURE_IMPLICIT));
    assert!(sim.end_capture(free).is_ok());
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn a_fork_must_be_joined() {
    for joined in [false, true] {
        let (mut sim, [origin, side]) = machine();
        let context = sim.contexts.retain_primary(0);
        let event = sim.timeline.add_event(context, false);
        sim.begin_capture(origin, Mode::Global, None).unwrap();
        sim.record_event(event, origin).unwrap();
        sim.stream_waits(side, event).unwrap();
        let node = Operation::Fill { to: 0, len: 0, value: 0 };
        sim.enqueue(side, node, "a test").unwrap();
        if joined {
            sim.record_event(event, side).unwrap();
            sim.stream_waits(origin, event).unwrap();
        }
        let ended = sim.end_capture(origin);
        assert_eq!(ended.is_ok(), joined, "{ended:?}");
        assert_eq!(sim.capture_of(side), None);
    }
    assert_eq!(in_this_thread::take(), 0);
}
