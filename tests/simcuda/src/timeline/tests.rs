use super::*;
use crate::physical::Extent;
use crate::violation::in_this_thread;

const CONTEXT: u64 = 1;

fn kernel(duration: Time, bytes: std::ops::Range<u64>, write: bool) -> Plan {
    let extent = Extent { object: 1, offset: bytes.start, len: bytes.end - bytes.start };
    let touches = vec![Touch { extent, address: 0x1000 + bytes.start, write }];
    Plan { what: "kernel", duration, touches, effects: Vec::new() }
}

fn streams<const N: usize>(roles: [Role; N]) -> (Timeline, [u64; N]) {
    let mut timeline = Timeline::default();
    let handles = roles.map(|role| timeline.add_stream(CONTEXT, role));
    (timeline, handles)
}

#[test]
fn work_of_a_stream_runs_in_order() {
    let (mut timeline, [s]) = streams([Role::NonBlocking]);
    assert_eq!(timeline.submit(s, kernel(100, 0..8, true), 10), 110);
    assert_eq!(timeline.submit(s, kernel(100, 0..8, true), 20), 210);
    assert_eq!(timeline.submit(s, kernel(100, 0..8, true), 500), 600);
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn the_legacy_stream_and_blocking_streams_take_turns() {
    let (mut timeline, [legacy, blocking, thread, free]) =
        streams([Role::Legacy, Role::Blocking, Role::PerThread(1), Role::NonBlocking]);
    assert_eq!(timeline.submit(blocking, kernel(100, 0..1, true), 0), 100);
    assert_eq!(timeline.submit(thread, kernel(50, 1..2, true), 0), 50);
    assert_eq!(timeline.submit(legacy, kernel(10, 2..3, true), 0), 110);
    assert_eq!(timeline.submit(thread, kernel(5, 3..4, true), 0), 115);
    assert_eq!(timeline.submit(free, kernel(5, 4..5, true), 0), 5);
}

#[test]
fn unordered_writes_of_the_same_bytes_are_caught() {
    let (mut timeline, [a, b]) = streams([Role::NonBlocking, Role::NonBlocking]);
    timeline.submit(a, kernel(100, 0..8, true), 0);
    timeline.submit(b, kernel(10, 8..16, true), 0);
    assert_eq!(in_this_thread::take(), 0);
    timeline.submit(b, kernel(10, 4..5, false), 0);
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn readers_may_overlap() {
    let (mut timeline, [a, b]) = streams([Role::NonBlocking, Role::NonBlocking]);
    timeline.submit(a, kernel(100, 0..8, false), 0);
    timeline.submit(b, kernel(100, 0..8, false), 0);
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn a_wait_orders_two_streams() {
    let (mut timeline, [a, b]) = streams([Role::NonBlocking, Role::NonBlocking]);
    let end = timeline.submit(a, kernel(100, 0..8, true), 0);
    timeline.delay_stream(b, end);
    assert_eq!(timeline.submit(b, kernel(10, 0..8, true), 0), 110);
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn a_second_writer_must_not_run_before_a_first_that_waits() {
    let (mut timeline, [a, b]) = streams([Role::NonBlocking, Role::NonBlocking]);
    timeline.delay_stream(a, 1000);
    timeline.submit(a, kernel(100, 0..8, true), 0);
    timeline.submit(b, kernel(10, 0..8, true), 0);
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn a_context_is_idle_when_its_last_work_is() {
    let (mut timeline, [a, b]) = streams([Role::NonBlocking, Role::Legacy]);
    timeline.submit(a, kernel(300, 0..8, true), 0);
    timeline.submit(b, kernel(10, 8..9, true), 0);
    assert_eq!(timeline.context_idle_at(CONTEXT, 0), 300);
    timeline.remove_stream(a);
    assert_eq!(timeline.context_idle_at(CONTEXT, 0), 300);
    assert_eq!(timeline.settle(300).len(), 2);
    assert_eq!(timeline.context_idle_at(CONTEXT, 301), 301);
}
