//! The last words of `cenote run`: what was seen, in a few lines, and the next command.

use std::fmt::Write;
use std::path::Path;

use cenote::report::{EventKind, Fragmentation, LeakClass, Report};

use crate::render::{BAD, WARN, bytes, duration, paint, percent, plural, quote, shell};
use crate::reports::{Found, saw_nothing, suspects};

/// Reports that are named one by one.
const NAMED: usize = 3;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) wall_ns: u64,
    pub(crate) command: &'a [String],
    pub(crate) reports: &'a [Found],
}

/// The lines, for stderr.
pub(crate) fn describe(job: &Job<'_>) -> String {
    if job.reports.is_empty() {
        return nothing(job, "no process of the job reached CUDA, so there is no report");
    }
    let reports: Vec<&Report> = job.reports.iter().map(|found| &found.report).collect();
    if reports.iter().all(|report| saw_nothing(report)) {
        return nothing(job, "CUDA was reached, but no call of its memory functions was seen");
    }
    let mut text = format!(
        "cenote: {} used CUDA, {}, {}\n",
        plural(reports.len() as u64, "process"),
        duration(job.wall_ns),
        out_of_memory(&reports),
    );
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:15} {value}");
    };
    line("peak live", peak(&reports, |device| device.memory.peak_live_bytes));
    line("peak reserved", peak(&reports, |device| device.pool.peak_reserved_bytes));
    line("driver used", peak(&reports, |device| device.memory.peak_driver_used_bytes));
    line("fragmentation", fragmentation(&reports));
    line("suspects", leak_suspects(&reports));
    let recovered = reports.iter().filter(|report| !report.complete).count();
    if recovered > 0 {
        let what = format!(
            "{} ended without a report; it was made from the live numbers",
            plural(recovered as u64, "process")
        );
        line("incomplete", paint(WARN, what));
    }
    let _ = writeln!(text, "  next: cenote summary {}", targets(job.reports));
    text
}

fn nothing(job: &Job<'_>, what: &str) -> String {
    let command: Vec<_> = job.command.iter().map(|word| quote(word)).collect();
    format!("cenote: {what}\n  next: cenote doctor -- {}\n", command.join(" "))
}

fn out_of_memory(reports: &[&Report]) -> String {
    let events = reports.iter().flat_map(|report| &report.events);
    let seen = events.filter(|event| event.kind == EventKind::OutOfMemory).count() as u64;
    let devices = reports.iter().flat_map(|report| &report.devices);
    let refused = devices.fold(0u64, |sum, device| sum.saturating_add(device.pool.out_of_memory));
    match seen.max(refused) {
        0 => "never out of memory".to_owned(),
        times => paint(BAD, format!("out of memory {}", plural(times, "time"))),
    }
}

/// The largest value of a device, and whose it is where there are several.
fn peak(reports: &[&Report], value: impl Fn(&cenote::report::Device) -> u64) -> String {
    let largest_of = |report: &Report| report.devices.iter().map(&value).max().unwrap_or(0);
    let mut values: Vec<_> =
        reports.iter().map(|report| (largest_of(report), who(report))).collect();
    values.sort();
    let median = values[values.len() / 2].0;
    match values.pop() {
        Some((largest, _)) if reports.len() == 1 => bytes(largest),
        Some((largest, who)) => format!("{}  {who} (median {})", bytes(largest), bytes(median)),
        None => String::new(),
    }
}

fn who(report: &Report) -> String {
    match &report.process.rank {
        Some(rank) => format!("rank {}", rank.global),
        None => format!("pid {}", report.process.pid),
    }
}

/// Of the device with the most free memory: there it matters.
fn fragmentation(reports: &[&Report]) -> String {
    let devices = reports.iter().flat_map(|report| &report.devices);
    let worst = devices.max_by_key(|device| device.fragmentation.free_bytes);
    let Some(device) = worst else { return "no device".to_owned() };
    let Fragmentation { internal_ratio, external_ratio, free_bytes, largest_free_bytes, .. } =
        device.fragmentation;
    if free_bytes == 0 || device.segments.is_empty() {
        return format!("internal {}; {} free", percent(internal_ratio), bytes(free_bytes));
    }
    format!(
        "internal {}, external {}; largest free {} of {} free",
        percent(internal_ratio),
        percent(external_ratio),
        bytes(largest_free_bytes),
        bytes(free_bytes),
    )
}

fn leak_suspects(reports: &[&Report]) -> String {
    let (mut growing, mut never_freed, mut held) = (0, 0, 0u64);
    for (_, leak) in reports.iter().flat_map(|report| suspects(report)) {
        held = held.saturating_add(leak.bytes);
        match leak.class {
            LeakClass::Growing => growing += 1,
            _ => never_freed += 1,
        }
    }
    if growing + never_freed == 0 {
        return "none".to_owned();
    }
    let sites = plural(growing + never_freed, "site");
    paint(WARN, format!("{} at {sites}: {growing} growing, {never_freed} never freed", bytes(held)))
}

/// The reports, or the folder that has them all.
fn targets(found: &[Found]) -> String {
    let folder = found.first().and_then(|found| found.path.parent());
    let together = found.iter().all(|found| found.path.parent() == folder);
    match folder {
        Some(folder) if found.len() > NAMED && together => shell(folder),
        _ => {
            let names: Vec<_> =
                found.iter().take(NAMED).map(|found| shell(relative(&found.path))).collect();
            let more = if found.len() > NAMED { " ..." } else { "" };
            format!("{}{more}", names.join(" "))
        }
    }
}

/// Shorter to type, where the report is in or below this folder.
fn relative(path: &Path) -> &Path {
    let here = std::env::current_dir().ok();
    here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path)
}
