//! What happened, in a summary: out of memory first, and what happened many times once.

use std::fmt::Write;

use cenote::report::{Event, EventKind, EventState, Report};

use crate::render::{BAD, HEADING, QUIET, WARN, bytes, count, duration, paint, plural};
use crate::stack;

/// Events that are shown.
const EVENTS: usize = 5;
/// Holders that are shown of each.
const HOLDERS: usize = 3;

/// Events of one kind from one call site, for one size or address.
struct Group<'a> {
    first: &'a Event,
    last_ns: u64,
    times: u64,
}

/// The section; empty where nothing happened.
pub(super) fn events(report: &Report) -> String {
    let mut groups = groups(report);
    if groups.is_empty() {
        return String::new();
    }
    groups.sort_by_key(|group| group.first.kind != EventKind::OutOfMemory);
    let mut text = format!("\n{}\n", paint(HEADING, "Events"));
    for group in groups.iter().take(EVENTS) {
        text.push_str(&group_lines(report, group));
    }
    let more = groups.iter().skip(EVENTS).fold(report.truncated.events, |sum, g| sum + g.times);
    if more > 0 {
        let _ = writeln!(text, "  {}", paint(QUIET, format!("and {}", plural(more, "more event"))));
    }
    text
}

fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for event in &report.events {
        let key =
            |e: &Event| (e.kind, e.device, e.address.clone(), e.requested_bytes, e.stack.clone());
        match groups.iter_mut().find(|group| key(group.first) == key(event)) {
            Some(group) => {
                group.last_ns = event.at_ns;
                group.times += 1;
            }
            None => groups.push(Group { first: event, last_ns: event.at_ns, times: 1 }),
        }
    }
    groups
}

fn group_lines(report: &Report, group: &Group<'_>) -> String {
    let event = group.first;
    let mut text = format!("  {} {}{}\n", kind(event.kind), when(group), account(event));
    for holder in event.holders.iter().take(HOLDERS) {
        let Some(site) = report.sites.get(holder.site as usize) else { continue };
        let called = stack::line(report, &site.stack, 2);
        let _ = writeln!(
            text,
            "    held {} in {}: {called}",
            bytes(holder.bytes),
            plural(holder.blocks, "block")
        );
    }
    let stacks = [
        ("called from", &event.stack),
        ("allocated at", &event.allocated_at),
        ("freed at", &event.freed_at),
    ];
    for (what, frames) in stacks.into_iter().filter(|(_, frames)| !frames.is_empty()) {
        let _ = writeln!(text, "    {what} {}", stack::line(report, frames, 2));
    }
    text
}

fn kind(kind: EventKind) -> String {
    match kind {
        EventKind::OutOfMemory => paint(BAD, "out of memory"),
        EventKind::DoubleFree => paint(BAD, "double free"),
        EventKind::InteriorFree => paint(BAD, "interior free"),
        EventKind::LostWithContext => paint(WARN, "lost with context"),
        EventKind::UnbalancedClose => paint(WARN, "unbalanced close"),
        EventKind::SharedSegment => paint(WARN, "shared segment"),
    }
}

fn when(group: &Group<'_>) -> String {
    let first = duration(group.first.at_ns);
    if group.times == 1 {
        return format!("after {first}");
    }
    format!("{} times between {first} and {}", count(group.times), duration(group.last_ns))
}

/// What is known beyond kind and time. The sentence of a refusal says the same as its numbers, in bytes.
fn account(event: &Event) -> String {
    let Some(state) = &event.state else { return format!(": {}", event.text) };
    let device = event.device.map(|device| format!(" on GPU {device}")).unwrap_or_default();
    let asked = event.requested_bytes.unwrap_or_default();
    format!("{device}: {} asked; {}", bytes(asked), reason(asked, state))
}

/// The limit refused it if it leaves less room than was asked for, else the device did.
fn reason(asked: u64, state: &EventState) -> String {
    let held = state.reserved_bytes.max(state.live_bytes);
    let room = state.limit_bytes.map(|limit| (limit, limit.saturating_sub(held)));
    match room.filter(|&(_, room)| room < asked) {
        Some((limit, room)) => {
            format!("the limit of {} allows {} more", bytes(limit), bytes(room))
        }
        None => format!(
            "the device has {} free, the pool's largest free block is {}",
            bytes(state.driver_free_bytes),
            bytes(state.largest_free_bytes)
        ),
    }
}
