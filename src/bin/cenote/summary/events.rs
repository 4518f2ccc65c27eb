//! What happened, in a summary: out of memory first.

use std::fmt::Write;

use cenote::report::{Event, EventKind, EventState, Report};

use crate::render::{BAD, HEADING, QUIET, WARN, bytes, duration, paint, plural};
use crate::stack;

/// Events that are shown.
const EVENTS: usize = 5;
/// Holders that are shown of each.
const HOLDERS: usize = 3;

/// The section; empty where nothing happened.
pub(super) fn events(report: &Report) -> String {
    let mut events: Vec<_> = report.events.iter().collect();
    if events.is_empty() {
        return String::new();
    }
    events.sort_by_key(|event| event.kind != EventKind::OutOfMemory);
    let mut text = format!("\n{}\n", paint(HEADING, "Events"));
    for event in events.iter().take(EVENTS) {
        text.push_str(&event_lines(report, event));
    }
    let more = report.events.len().saturating_sub(EVENTS) as u64 + report.truncated.events;
    if more > 0 {
        let _ = writeln!(text, "  {}", paint(QUIET, format!("and {}", plural(more, "more event"))));
    }
    text
}

fn event_lines(report: &Report, event: &Event) -> String {
    let kind = match event.kind {
        EventKind::OutOfMemory => paint(BAD, "out of memory"),
        EventKind::DoubleFree => paint(BAD, "double free"),
        EventKind::InteriorFree => paint(BAD, "interior free"),
        EventKind::LostWithContext => paint(WARN, "lost with context"),
        EventKind::UnbalancedClose => paint(WARN, "unbalanced close"),
        EventKind::SharedSegment => paint(WARN, "shared segment"),
    };
    let mut text = format!("  {kind} after {}: {}\n", duration(event.at_ns), event.text);
    if let Some(state) = &event.state {
        text.push_str(&state_line(event.requested_bytes.unwrap_or_default(), state));
    }
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

fn state_line(requested_bytes: u64, state: &EventState) -> String {
    let limit = state.limit_bytes.map(|limit| format!(", limit {}", bytes(limit)));
    format!(
        "    asked {}; live {}, reserved {}, largest free {} of {} in the pool, {} in the driver{}\n",
        bytes(requested_bytes),
        bytes(state.live_bytes),
        bytes(state.reserved_bytes),
        bytes(state.largest_free_bytes),
        bytes(state.free_bytes),
        bytes(state.driver_free_bytes),
        limit.unwrap_or_default(),
    )
}
