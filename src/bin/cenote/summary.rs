//! `cenote summary`: a report on one screen.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cenote::report::{Device, Event, EventKind, Reason, Report};
use serde_json::json;

use crate::exit::Outcome;
use crate::render::{
    BAD, HEADING, QUIET, WARN, bytes, count, cut, duration, paint, percent, plural, quote, shell,
    signed_bytes, table,
};
use crate::reports::{self, saw_nothing, suspects};
use crate::{glossary, stack};

/// Call sites that are shown.
const SITES: usize = 5;
/// Events that are shown.
const EVENTS: usize = 5;

/// Show where the device memory went, on one screen a report.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Reports, or folders of reports.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Say what each number means.
    #[arg(long)]
    explain: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn summary(options: &Options) -> anyhow::Result<Outcome> {
    let found = reports::load(&options.reports)?;
    if options.json {
        let entries: Vec<_> = found.iter().map(|found| to_json(&found.path, &found.report)).collect();
        return Outcome::json(&entries);
    }
    let pages = found.iter().map(|found| page(&found.path, &found.report, true));
    let mut text = pages.collect::<Vec<_>>().join("\n");
    if options.explain {
        let _ = write!(text, "\n{}\n{}", paint(HEADING, "What the numbers mean"), glossary::text());
    }
    Ok(Outcome::of(text))
}

/// The page of one report.
pub(crate) fn page(path: &Path, report: &Report, with_next: bool) -> String {
    let mut text = process(report);
    if saw_nothing(report) {
        let line = "cenote saw no call of the driver's memory functions in this process, so it can't say anything about its memory";
        let _ = writeln!(text, "\n{}", paint(BAD, line));
    }
    for device in &report.devices {
        text.push_str(&memory(device));
        text.push_str(&pool(device));
    }
    if report.host.peak_bytes > 0 {
        let (live, peak) = (bytes(report.host.bytes), bytes(report.host.peak_bytes));
        let _ = writeln!(text, "\n  pinned host memory  live {live}, peak {peak}");
    }
    text.push_str(&sites(report));
    text.push_str(&events(report));
    text.push_str(&leak_line(report));
    for note in &report.notes {
        let times = if note.count > 1 { format!(" ({} times)", count(note.count)) } else { String::new() };
        let _ = writeln!(text, "  {} {}{times}", paint(WARN, "note:"), note.text);
    }
    if with_next {
        let path = shell(path);
        let _ = writeln!(text, "\nnext: cenote leaks {path}    cenote frag {path}");
    }
    text
}

fn process(report: &Report) -> String {
    let process = &report.process;
    let command: Vec<_> = process.command.iter().map(|word| quote(word)).collect();
    let command = if command.is_empty() { process.executable.clone() } else { command.join(" ") };
    let rank = process.rank.as_ref().map(|rank| match rank.world {
        Some(world) => format!(", rank {} of {world}", rank.global),
        None => format!(", rank {}", rank.global),
    });
    let how = match report.reason {
        Reason::Exit => "at exit",
        Reason::ImmediateExit => "at _exit",
        Reason::OutOfMemory => "when an allocation was refused",
        Reason::Request => "on request",
        Reason::Interval => "at an interval",
        Reason::Recovered => "recovered",
    };
    let state = if report.complete { String::new() } else { paint(WARN, ", incomplete") };
    format!(
        "{}\n  pid {} on {}{}, {} from the first CUDA call, {how}{state}\n",
        paint(HEADING, cut(&command, 120)),
        process.pid,
        process.host,
        rank.unwrap_or_default(),
        duration(process.duration_ns),
    )
}

fn memory(device: &Device) -> String {
    let memory = &device.memory;
    let name = device.name.as_deref().unwrap_or("device");
    let heading = format!("GPU {}  {name}, {}", device.ordinal, bytes(device.total_bytes));
    let mut text = format!("\n{}\n", paint(HEADING, heading));
    if memory.sampled_unix_ns == 0 {
        text.push_str("  the driver was never asked what is used\n");
    } else {
        let known = memory.unaccounted_known.iter();
        let known: Vec<_> = known.map(|(cause, n)| format!("{cause} {}", bytes(*n))).collect();
        let known = if known.is_empty() { String::new() } else { format!(" (of it {})", known.join(", ")) };
        let _ = writeln!(
            text,
            "  driver used {} = tracked {} + context {} + unaccounted {}{known}",
            bytes(memory.driver_used_bytes),
            bytes(memory.tracked_bytes),
            bytes(memory.context_bytes),
            signed_bytes(memory.unaccounted_bytes),
        );
    }
    let _ = writeln!(
        text,
        "  peaks       live {}, reserved {}, driver used {}",
        bytes(memory.peak_live_bytes),
        bytes(device.pool.peak_reserved_bytes),
        bytes(memory.peak_driver_used_bytes),
    );
    let kinds = memory.by_kind.iter().map(|(kind, live)| {
        let kind = serde_json::to_value(kind).ok().and_then(|kind| Some(kind.as_str()?.to_owned()));
        vec![kind.unwrap_or_default(), bytes(live.bytes), count(live.blocks), bytes(live.peak_bytes)]
    });
    if !memory.by_kind.is_empty() {
        text.push_str(&table(&["kind", "live", "blocks", "peak"], &[1, 2, 3], kinds.collect()));
    }
    let owners = memory.by_owner.iter().map(|owner| {
        vec![owner.owner.clone(), bytes(owner.bytes), count(owner.blocks)]
    });
    if !memory.by_owner.is_empty() {
        text.push_str(&table(&["owner", "live", "blocks"], &[1, 2], owners.collect()));
    }
    text
}

fn pool(device: &Device) -> String {
    let pool = &device.pool;
    if pool.allocations == 0 && pool.peak_reserved_bytes == 0 {
        return "  pool  served nothing\n".to_owned();
    }
    let limit = pool.limit_bytes.map(|limit| format!(", limit {}", bytes(limit))).unwrap_or_default();
    let hits = pool.hits as f64 / pool.allocations.max(1) as f64;
    let mut text = format!(
        "  pool        reserved {} = live {} + cached {} + waiting {} + internal {}{limit}\n  \
           \x20           {} hits of {}; the driver was asked {} and given back {}\n",
        bytes(pool.reserved_bytes),
        bytes(pool.live_bytes),
        bytes(pool.cached_bytes),
        bytes(pool.waiting_bytes),
        bytes(pool.internal_bytes),
        percent(hits),
        plural(pool.allocations, "allocation"),
        plural(pool.driver_allocations, "time"),
        plural(pool.driver_frees, "time"),
    );
    let rare = [
        ("waits", pool.waits),
        ("flushes", pool.flushes),
        ("garbage collections", pool.garbage_collections),
        ("idle releases", pool.idle_releases),
        ("refused", pool.out_of_memory),
        ("exported blocks", pool.exported_blocks),
    ];
    let rare = rare.iter().filter(|(_, number)| *number > 0);
    let rare: Vec<_> = rare.map(|(name, number)| format!("{name} {}", count(*number))).collect();
    if !rare.is_empty() {
        let _ = writeln!(text, "              {}", rare.join(", "));
    }
    let _ = writeln!(text, "  fragmented  {}", fragmentation_line(device));
    text
}

/// Fragmentation in one line.
pub(crate) fn fragmentation_line(device: &Device) -> String {
    let found = &device.fragmentation;
    let stranded = &found.stranded;
    let total = stranded.pinned_by_live_bytes.saturating_add(stranded.waiting_bytes).saturating_add(stranded.exported_bytes);
    if device.segments.is_empty() && found.free_bytes > 0 {
        return format!("internal {}, {} free in pieces that are not known", percent(found.internal_ratio), bytes(found.free_bytes));
    }
    format!(
        "internal {}, external {}; largest free {} of {} free; stranded {}",
        percent(found.internal_ratio),
        percent(found.external_ratio),
        bytes(found.largest_free_bytes),
        bytes(found.free_bytes),
        bytes(total),
    )
}

fn sites(report: &Report) -> String {
    // At the end of a tidy program nothing is live; then what it once held is of interest.
    let by_peak = report.sites.iter().all(|site| site.live_bytes == 0);
    let mut sites: Vec<_> = report.sites.iter().collect();
    if by_peak {
        sites.sort_by_key(|site| std::cmp::Reverse(site.peak_bytes));
    }
    if sites.is_empty() {
        return String::new();
    }
    let rows = sites.iter().take(SITES).map(|site| {
        vec![
            bytes(site.live_bytes),
            count(site.live_blocks),
            bytes(site.peak_bytes),
            site.owner.clone(),
            stack::line(report, &site.stack, 2),
        ]
    });
    let heading = if by_peak { "Call sites with the highest peaks (nothing is live)" } else { "Call sites that hold most" };
    let mut text = format!("\n{}\n", paint(HEADING, heading));
    text.push_str(&table(&["live", "blocks", "peak", "owner", "called from"], &[0, 1, 2], rows.collect()));
    let more = report.sites.len().saturating_sub(SITES) as u64 + report.truncated.sites;
    if more > 0 {
        let _ = writeln!(text, "  {}", paint(QUIET, format!("and {}", plural(more, "more site"))));
    }
    text
}

fn events(report: &Report) -> String {
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
        let limit = state.limit_bytes.map(|limit| format!(", limit {}", bytes(limit))).unwrap_or_default();
        let _ = writeln!(
            text,
            "    asked {}; live {}, reserved {}, largest free {} of {} in the pool, {} in the driver{limit}",
            bytes(event.requested_bytes.unwrap_or_default()),
            bytes(state.live_bytes),
            bytes(state.reserved_bytes),
            bytes(state.largest_free_bytes),
            bytes(state.free_bytes),
            bytes(state.driver_free_bytes),
        );
    }
    for holder in event.holders.iter().take(3) {
        let Some(site) = report.sites.get(holder.site as usize) else { continue };
        let called = stack::line(report, &site.stack, 2);
        let _ = writeln!(text, "    held {} in {}: {called}", bytes(holder.bytes), plural(holder.blocks, "block"));
    }
    let stacks = [("called from", &event.stack), ("allocated at", &event.allocated_at), ("freed at", &event.freed_at)];
    for (what, frames) in stacks.into_iter().filter(|(_, frames)| !frames.is_empty()) {
        let _ = writeln!(text, "    {what} {}", stack::line(report, frames, 2));
    }
    text
}

fn leak_line(report: &Report) -> String {
    let (mut sites, mut held) = (0, 0u64);
    for (_, leak) in suspects(report) {
        sites += 1;
        held = held.saturating_add(leak.bytes);
    }
    if sites == 0 {
        return String::new();
    }
    let line = format!("leak suspects: {} in {}", bytes(held), plural(sites, "site"));
    format!("\n  {}\n", paint(WARN, line))
}

fn to_json(path: &Path, report: &Report) -> serde_json::Value {
    let devices = report.devices.iter().map(|device| {
        json!({
            "ordinal": device.ordinal,
            "name": device.name,
            "uuid": device.uuid,
            "total_bytes": device.total_bytes,
            "memory": device.memory,
            "pool": device.pool,
            "fragmentation": device.fragmentation,
        })
    });
    let devices: Vec<_> = devices.collect();
    let suspects_bytes = suspects(report).fold(0u64, |sum, (_, leak)| sum.saturating_add(leak.bytes));
    let out_of_memory = report.events.iter().filter(|event| event.kind == EventKind::OutOfMemory).count();
    let sites = report.sites.iter().take(SITES).map(|site| {
        json!({
            "kind": site.kind,
            "device": site.device,
            "owner": site.owner,
            "live_bytes": site.live_bytes,
            "live_blocks": site.live_blocks,
            "peak_bytes": site.peak_bytes,
            "stack": stack::full(report, &site.stack),
        })
    });
    json!({
        "path": path,
        "reason": report.reason,
        "complete": report.complete,
        "process": report.process,
        "devices": devices,
        "host": report.host,
        "sites": sites.collect::<Vec<_>>(),
        "events": report.events.len(),
        "out_of_memory": out_of_memory,
        "suspects_bytes": suspects_bytes,
        "notes": report.notes,
    })
}
