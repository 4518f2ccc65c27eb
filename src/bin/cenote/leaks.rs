//! `cenote leaks`: what was live at exit, suspects first.

use std::fmt::Write;
use std::path::PathBuf;

use cenote::conf::parse_bytes;
use cenote::report::{Leak, LeakClass, Report, Site};
use serde_json::{Value, json};

use crate::exit::{Outcome, THRESHOLD};
use crate::render::{BAD, GOOD, HEADING, QUIET, WARN, bytes, duration, paint, plural, shell};
use crate::reports::{
    self, Found, all_leaks, is_of_an_exit, refusals, saw_nothing, suspects, suspects_bytes,
};
use crate::stack;

/// Entries of each class that are shown without `--all`.
const ENTRIES: usize = 10;
/// Frames of each entry that are shown without `--all`.
const FRAMES: usize = 3;

/// Show what was live at exit, by class: suspects first.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Reports, or folders of reports.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// End with status 123 if the suspects of all reports together hold more than this, such as 64MiB, or if a report
    /// does not tell.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    fail_on: Option<u64>,
    /// Show every entry, with its whole stack.
    #[arg(long)]
    all: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, &'static str> {
    parse_bytes(text).ok_or("it takes a size such as 64MiB")
}

pub(crate) fn leaks(options: &Options) -> anyhow::Result<Outcome> {
    let (found, status) = reports::load(&options.reports);
    let mut outcome = if options.json {
        Outcome::json(&found.iter().map(to_json).collect::<Vec<_>>())?
    } else {
        let texts: Vec<_> = found.iter().map(|found| page(found, options.all)).collect();
        Outcome::page(&texts.join("\n"))
    };
    outcome.status = status;
    if let Some(limit) = options.fail_on
        && !is_within(&found, limit)
        && status == 0
    {
        outcome.status = THRESHOLD;
    }
    Ok(outcome)
}

/// Whether the suspects hold no more than `limit`. A report that does not tell is a no.
fn is_within(found: &[Found], limit: u64) -> bool {
    let (mut sum, mut is_known) = (0u64, true);
    for found in found {
        match suspects_bytes(&found.report) {
            Some(bytes) => sum = sum.saturating_add(bytes),
            None => {
                is_known = false;
                anstream::eprintln!(
                    "cenote: {} does not tell what was live at exit, so --fail-on can't pass",
                    shell(&found.path)
                );
            }
        }
    }
    if sum > limit {
        anstream::eprintln!("cenote: suspects hold {}, more than {}", bytes(sum), bytes(limit));
    }
    is_known && sum <= limit
}

fn page(found: &Found, all: bool) -> String {
    let report = &found.report;
    let process = &report.process;
    let heading =
        format!("{}, pid {}, {}", shell(&found.path), process.pid, duration(process.duration_ns));
    let mut text = format!("{}\n", paint(HEADING, heading));
    if saw_nothing(report) {
        let line = "cenote saw no call of the driver's memory functions, so it can't say whether anything leaked; \
                    `cenote doctor -- CMD` says why";
        let _ = writeln!(text, "  {}", paint(BAD, line));
        return text;
    }
    if !is_of_an_exit(report) {
        let line = "this report is not from the end of its process, so what was live at exit is not known; \
                    `cenote summary` shows what its call sites held";
        let _ = writeln!(text, "  {}", paint(WARN, line));
        return text;
    }
    if !report.complete {
        let _ = writeln!(text, "  {}", paint(WARN, "the report is incomplete"));
    }
    if refusals(report).next().is_some() {
        let line = "the process ran out of memory: live blocks may be in use; see cenote summary";
        let _ = writeln!(text, "  {}", paint(WARN, line));
    }
    text.push_str(&verdict(report));
    for class in CLASSES {
        text.push_str(&of_class(report, *class, all));
    }
    if report.truncated.leak_bytes > 0 {
        let rest = bytes(report.truncated.leak_bytes);
        let _ = writeln!(
            text,
            "\n  {}",
            paint(QUIET, format!("and {rest} at sites that are not in the report"))
        );
    }
    text
}

fn verdict(report: &Report) -> String {
    let sites = suspects(report).count() as u64;
    let line = if sites > 0 {
        paint(
            BAD,
            format!(
                "suspects hold {} in {}",
                bytes(suspects_bytes(report).unwrap_or(0)),
                plural(sites, "site")
            ),
        )
    } else if all_leaks(report).next().is_none() {
        paint(GOOD, "nothing was live at exit")
    } else {
        paint(GOOD, "no suspects: what was live at exit is explained below")
    };
    format!("  {line}\n")
}

const CLASSES: &[LeakClass] = &[
    LeakClass::Growing,
    LeakClass::NeverFreed,
    LeakClass::StartUp,
    LeakClass::HeldByCache,
    LeakClass::FreedDuringExit,
];

/// The name of a class, and what it means.
fn wording(class: LeakClass) -> (&'static str, &'static str) {
    match class {
        LeakClass::Growing => {
            ("Growing", "likely a leak: the site keeps blocks from all over the run")
        }
        LeakClass::NeverFreed => {
            ("Never freed", "possibly a leak: allocated after start-up and still there at the end")
        }
        LeakClass::StartUp => {
            ("Start-up", "not a leak: allocated early or by a library that keeps its workspace")
        }
        LeakClass::HeldByCache => {
            ("Held by a cache", "not a leak: a caching allocator frees nothing at exit")
        }
        LeakClass::FreedDuringExit => {
            ("Freed during exit", "not a leak: freed by a static destructor")
        }
    }
}

fn of_class(report: &Report, class: LeakClass, all: bool) -> String {
    let entries: Vec<_> = all_leaks(report).filter(|(_, leak)| leak.class == class).collect();
    if entries.is_empty() {
        return String::new();
    }
    let sum = entries.iter().fold(0u64, |sum, (_, leak)| sum.saturating_add(leak.bytes));
    let (name, meaning) = wording(class);
    let style = if class.is_suspect() { WARN } else { HEADING };
    let mut text = format!(
        "\n{}  {}\n",
        paint(style, format!("{name}: {}", bytes(sum))),
        paint(QUIET, meaning)
    );
    let shown = if all { entries.len() } else { ENTRIES };
    for (device, leak) in entries.iter().take(shown) {
        text.push_str(&entry(report, device.ordinal, leak, all));
    }
    if entries.len() > shown {
        let more = plural((entries.len() - shown) as u64, "more site");
        let _ = writeln!(text, "  {}", paint(QUIET, format!("and {more}; --all shows them")));
    }
    text
}

fn entry(report: &Report, device: u32, leak: &Leak, all: bool) -> String {
    let Some(site) = report.sites.get(leak.site as usize) else {
        return format!(
            "  {} in {} at an unknown site\n",
            bytes(leak.bytes),
            plural(leak.blocks, "block")
        );
    };
    let mut text = format!(
        "  {} in {}, GPU {device}, {}: {}\n",
        bytes(leak.bytes),
        plural(leak.blocks, "block"),
        site.owner,
        evidence(leak, site),
    );
    let frames = if all {
        stack::full(report, &site.stack)
    } else {
        stack::interesting(report, &site.stack, FRAMES)
    };
    for frame in &frames {
        let _ = writeln!(text, "      {frame}");
    }
    if frames.is_empty() {
        let _ = writeln!(text, "      {}", stack::line(report, &site.stack, FRAMES));
    }
    text
}

/// What the class rests on.
fn evidence(leak: &Leak, site: &Site) -> String {
    let when = if leak.first_ns == leak.last_ns {
        format!("allocated {} after the first CUDA call", duration(leak.first_ns))
    } else {
        format!("allocated between {} and {}", duration(leak.first_ns), duration(leak.last_ns))
    };
    let of = match leak.class {
        LeakClass::Growing => format!(", in {} of 8 parts of the run", leak.parts_of_run),
        _ => String::new(),
    };
    let kept =
        format!(", {} of {} ever allocated there", leak.blocks, plural(site.total_blocks, "block"));
    let sizes: Vec<_> = site.live_sizes.iter().take(2).map(|size| bytes(size.bytes)).collect();
    let sizes =
        if sizes.is_empty() { String::new() } else { format!(", of {}", sizes.join(" and ")) };
    format!("{when}{of}{kept}{sizes}")
}

fn to_json(found: &Found) -> Value {
    let report = &found.report;
    let leaks = all_leaks(report).map(|(device, leak)| {
        let site = report.sites.get(leak.site as usize);
        json!({
            "class": leak.class,
            "suspect": leak.class.is_suspect(),
            "device": device.ordinal,
            "bytes": leak.bytes,
            "blocks": leak.blocks,
            "parts_of_run": leak.parts_of_run,
            "first_ns": leak.first_ns,
            "last_ns": leak.last_ns,
            "site": leak.site,
            "kind": site.map(|site| site.kind),
            "owner": site.map(|site| &site.owner),
            "total_blocks": site.map(|site| site.total_blocks),
            "stack": site.map(|site| stack::full(report, &site.stack)),
        })
    });
    json!({
        "path": found.path,
        "complete": report.complete,
        "at_exit": is_of_an_exit(report),
        "nothing_seen": saw_nothing(report),
        "suspects_bytes": suspects_bytes(report),
        "leaks": leaks.collect::<Vec<_>>(),
    })
}
