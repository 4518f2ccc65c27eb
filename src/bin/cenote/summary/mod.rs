//! `cenote summary`: a report on one screen.

mod device;
mod events;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cenote::report::{Reason, Report};
use serde_json::json;

use crate::exit::Outcome;
use crate::render::{
    BAD, HEADING, QUIET, WARN, bytes, count, cut, duration, paint, plural, quote, shell, table,
};
use crate::reports::{self, refusals, saw_nothing, suspects, suspects_bytes};
use crate::{glossary, stack};

/// Call sites that are shown.
const SITES: usize = 5;

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
    let (found, status) = reports::load(&options.reports);
    if options.json {
        let entries: Vec<_> =
            found.iter().map(|found| to_json(&found.path, &found.report)).collect();
        return Ok(Outcome { status, ..Outcome::json(&entries)? });
    }
    let pages = found.iter().map(|found| page(&found.path, &found.report, false));
    let mut text = pages.collect::<Vec<_>>().join("\n");
    if options.explain {
        let _ = write!(text, "\n{}\n{}", paint(HEADING, "What the numbers mean"), glossary::text());
    }
    Ok(Outcome { status, ..Outcome::page(&text) })
}

/// The page of one report; `live`, of a process that still runs.
pub(crate) fn page(path: &Path, report: &Report, live: bool) -> String {
    let mut text = process(report, live);
    if saw_nothing(report) {
        let line = "cenote saw no call of the driver's memory functions in this process, \
                    so it can't say anything about its memory";
        let _ = writeln!(text, "\n{}", paint(BAD, line));
    }
    for device in &report.devices {
        text.push_str(&device::memory(device, report));
        text.push_str(&device::pool(device, report));
    }
    if report.host.peak_bytes > 0 {
        let (live, peak) = (bytes(report.host.bytes), bytes(report.host.peak_bytes));
        let _ = writeln!(text, "\n  pinned host memory  live {live}, peak {peak}");
    }
    text.push_str(&sites(report));
    text.push_str(&events::events(report));
    text.push_str(&leak_line(report));
    for note in &report.notes {
        let times =
            if note.count > 1 { format!(" ({} times)", count(note.count)) } else { String::new() };
        let _ = writeln!(text, "  {} {}{times}", paint(WARN, "note:"), note.text);
    }
    if !live {
        let path = shell(path);
        let _ = writeln!(text, "\nnext: cenote leaks {path}\nnext: cenote frag {path}");
    }
    text
}

fn process(report: &Report, live: bool) -> String {
    let process = &report.process;
    let command: Vec<_> = process.command.iter().map(|word| quote(word)).collect();
    let command = if command.is_empty() { process.executable.clone() } else { command.join(" ") };
    let rank = process.rank.as_ref().map(|rank| match rank.world {
        Some(world) => format!(", rank {} of {world}", rank.global),
        None => format!(", rank {}", rank.global),
    });
    let how = match report.reason {
        _ if live => "still running, numbers as of now",
        Reason::Exit => "at exit",
        Reason::ImmediateExit => "at _exit",
        Reason::Abort => "at abort",
        Reason::OutOfMemory => "when an allocation was refused",
        Reason::Request => "on request",
        Reason::Interval => "at an interval",
        Reason::Recovered => "recovered",
    };
    let state = if report.complete || live { String::new() } else { paint(WARN, ", incomplete") };
    format!(
        "{}\n  pid {} on {}{}, {} from the first CUDA call, {how}{state}\n",
        paint(HEADING, cut(&command, 120)),
        process.pid,
        process.host,
        rank.unwrap_or_default(),
        duration(process.duration_ns),
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
    let heading = if by_peak {
        "Call sites with the highest peaks (nothing is live)"
    } else {
        "Call sites that hold most"
    };
    let mut text = format!("\n{}\n", paint(HEADING, heading));
    text.push_str(&table(
        &["live", "blocks", "peak", "owner", "called from"],
        &[0, 1, 2],
        rows.collect(),
    ));
    let more = report.sites.len().saturating_sub(SITES) as u64 + report.truncated.sites;
    if more > 0 {
        let _ = writeln!(text, "  {}", paint(QUIET, format!("and {}", plural(more, "more site"))));
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
        "out_of_memory": refusals(report).count(),
        "suspects_bytes": suspects_bytes(report),
        "notes": report.notes,
    })
}
