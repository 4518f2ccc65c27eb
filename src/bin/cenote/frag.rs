//! `cenote frag`: how far free memory is from being useful, and what keeps it from that.

use std::fmt::Write;
use std::path::PathBuf;

use cenote::report::fragmentation::{Run, runs};
use cenote::report::{Device, Segment};
use serde_json::json;

use crate::exit::Outcome;
use crate::free;
use crate::render::{HEADING, QUIET, bytes, paint, percent, plural, shell};
use crate::reports::{self, Found};

/// Segments that are drawn without `--all`.
const SEGMENTS: usize = 24;
/// Letters in a drawn segment.
const WIDTH: usize = 40;

/// Show how far free memory is from being useful, and a map of the pool's segments.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Reports, or folders of reports.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Draw every segment.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn frag(options: &Options) -> anyhow::Result<Outcome> {
    let (found, status) = reports::load(&options.reports);
    if options.json {
        let entries: Vec<_> = found.iter().map(to_json).collect();
        return Ok(Outcome { status, ..Outcome::json(&entries)? });
    }
    let pages: Vec<_> = found.iter().flat_map(|found| pages(found, options.all)).collect();
    Ok(Outcome { status, ..Outcome::page(&pages.join("\n")) })
}

/// A page for each device.
fn pages(found: &Found, all: bool) -> Vec<String> {
    let report = &found.report;
    let (path, pid) = (shell(&found.path), report.process.pid);
    if report.devices.is_empty() {
        return vec![format!("{path}: no device was used\n")];
    }
    let page = |device: &Device| {
        let heading = paint(HEADING, format!("{path}, pid {pid}, GPU {}", device.ordinal));
        if free::served_nothing(device) {
            return format!("{heading}\n  the pool {}\n", free::nothing_served(report));
        }
        let map = map(device, all, report.truncated.segments);
        format!("{heading}\n{}{map}", numbers(device))
    };
    report.devices.iter().map(page).collect()
}

fn numbers(device: &Device) -> String {
    let (found, pool) = (&device.fragmentation, &device.pool);
    let stranded = &found.stranded;
    let unknown = device.segments.is_empty() && found.free_bytes > 0;
    let or_unknown = &|text: String| if unknown { "unknown".to_owned() } else { text };
    let lines = [
        (
            "internal",
            percent(found.internal_ratio),
            format!(
                "{} of {} reserved is rounding",
                bytes(pool.internal_bytes),
                bytes(pool.reserved_bytes)
            ),
        ),
        external(device, or_unknown),
        (
            "stranded",
            bytes(stranded.pinned_by_live_bytes),
            "beside live blocks of the same segment".to_owned(),
        ),
        ("", bytes(stranded.waiting_bytes), "waiting for work that may use it".to_owned()),
        ("", bytes(stranded.exported_bytes), "perhaps open in a peer process".to_owned()),
    ];
    let mut text = String::new();
    for (name, number, meaning) in lines {
        let _ = writeln!(text, "  {name:8}  {number:>10}  {meaning}");
    }
    let largest = or_unknown(bytes(found.largest_free_bytes));
    let _ = writeln!(text, "  largest request that needs nothing from the driver: {largest}");
    text
}

fn external(
    device: &Device,
    or_unknown: &impl Fn(String) -> String,
) -> (&'static str, String, String) {
    let found = &device.fragmentation;
    let free = bytes(found.free_bytes);
    if free::only_waits(device) {
        return ("external", "-".to_owned(), format!("{free} free waits for work in flight"));
    }
    let largest = or_unknown(bytes(found.largest_free_bytes));
    let meaning = format!("largest free {largest} of {free} free");
    ("external", or_unknown(percent(found.external_ratio)), meaning)
}

/// Segments with something free first: those are what the map is for.
fn map(device: &Device, all: bool, cut: u64) -> String {
    if device.segments.is_empty() {
        return "  the report has no segments\n".to_owned();
    }
    let is_full = |segment: &&Segment| runs(&segment.map).iter().all(|run| run.state == 'L');
    let (full, mut segments): (Vec<&Segment>, Vec<&Segment>) =
        device.segments.iter().partition(is_full);
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.bytes));
    if all {
        segments.extend(&full);
    }
    let shown = if all { segments.len() } else { SEGMENTS };
    let legend = "L live, f free, w waiting for work, x withheld for a peer; a line is a segment";
    let mut text = format!("\n  {}\n", paint(QUIET, legend));
    for segment in segments.iter().take(shown) {
        let slots =
            segment.slot_bytes.map(|slot| format!("{} slots", bytes(slot))).unwrap_or_default();
        let exported = if segment.exported { " exported" } else { "" };
        let line = format!(
            "  {:14} {:>11}  [{}] {slots}{exported}",
            segment.address,
            bytes(segment.bytes),
            draw(&runs(&segment.map), WIDTH)
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str(&rest(segments.get(shown..).unwrap_or_default(), "more segment"));
    text.push_str(&rest(if all { &[] } else { &full }, "full segment"));
    if cut > 0 {
        let _ = writeln!(
            text,
            "  {}",
            paint(QUIET, format!("{} not in the report", plural(cut, "segment")))
        );
    }
    text
}

/// A line for segments that are not drawn.
fn rest(segments: &[&Segment], noun: &str) -> String {
    if segments.is_empty() {
        return String::new();
    }
    let number = plural(segments.len() as u64, noun);
    let held = segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.bytes));
    let line = format!("and {number} of {}; --all draws them", bytes(held));
    format!("  {}\n", paint(QUIET, line))
}

/// The runs at a fixed width. Where a letter stands for many slots, it shows the state of most of them.
fn draw(runs: &[Run], width: usize) -> String {
    let slots: u64 = runs.iter().fold(0, |sum, run| sum.saturating_add(run.slots));
    let cell = |at: usize| -> char {
        let (from, to) =
            (share(slots, at, width), share(slots, at + 1, width).max(share(slots, at, width) + 1));
        let mut before = 0u64;
        let mut most = (0, ' ');
        for run in runs {
            let end = before.saturating_add(run.slots);
            let overlap = to.min(end).saturating_sub(from.max(before));
            if overlap > most.0 {
                most = (overlap, run.state);
            }
            before = end;
        }
        most.1
    };
    (0..width).map(cell).collect()
}

fn share(slots: u64, at: usize, width: usize) -> u64 {
    (u128::from(slots) * at as u128 / width as u128) as u64
}

fn to_json(found: &Found) -> serde_json::Value {
    let devices = found.report.devices.iter().map(|device| {
        json!({
            "ordinal": device.ordinal,
            "fragmentation": device.fragmentation,
            "reserved_bytes": device.pool.reserved_bytes,
            "internal_bytes": device.pool.internal_bytes,
            "segments": device.segments,
        })
    });
    json!({
        "path": found.path,
        "devices": devices.collect::<Vec<_>>(),
        "truncated_segments": found.report.truncated.segments,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_a_fixed_width() {
        assert_eq!(draw(&runs("L1f1"), 8), "LLLLffff");
        assert_eq!(draw(&runs("L3f1"), 4), "LLLf");
        assert_eq!(draw(&runs("L90f10"), 10), "LLLLLLLLLf");
        assert_eq!(draw(&runs("f"), 3), "fff");
        assert_eq!(draw(&[], 3), "   ");
    }
}
