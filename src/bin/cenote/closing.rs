//! The last words of `cenote run`: what was seen, in a few lines, and the next command.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cenote::report::{Event, LeakClass, Report};

use crate::render::{BAD, WARN, bytes, duration, paint, plural, quote, shell};
use crate::reports::{Found, is_of_an_exit, json_files, refusals, saw_nothing, suspects};
use crate::{free, stack};

/// Reports that are named one by one.
const NAMED: usize = 3;

/// A job that has ended.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) wall_ns: u64,
    pub(crate) command: &'a [String],
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// What kept cenote from working.
    pub(crate) switched_off: Option<&'static str>,
    pub(crate) reports: &'a [Found],
    /// Processes that reached CUDA and have no report; each was said already.
    pub(crate) missing: usize,
}

/// The lines, for stderr.
pub(crate) fn describe(job: &Job<'_>) -> String {
    if job.reports.is_empty() {
        return match job.switched_off {
            _ if job.missing > 0 => String::new(),
            Some(by) => format!("cenote: cenote was switched off ({by}), so there is no report\n"),
            None => nothing(job, "no process of the job reached CUDA, so there is no report"),
        };
    }
    let reports: Vec<&Report> = job.reports.iter().map(|found| &found.report).collect();
    if reports.iter().all(|report| saw_nothing(report)) {
        return nothing(job, "CUDA was reached, but no call of its memory functions was seen");
    }
    let mut text = format!(
        "cenote: {} used CUDA, {}{}, {}\n",
        plural(reports.len() as u64, "process"),
        duration(job.wall_ns),
        signal(job),
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
    format!("cenote: {what}{}\n  next: cenote doctor -- {}\n", signal(job), command.join(" "))
}

fn signal(job: &Job<'_>) -> String {
    let ended = |signal| paint(WARN, format!(", ended by signal {signal}"));
    job.signal.map(ended).unwrap_or_default()
}

fn out_of_memory(reports: &[&Report]) -> String {
    let mut events =
        reports.iter().flat_map(|report| refusals(report).map(move |event| (report, event)));
    let first = events.next();
    let seen = events.count() as u64 + u64::from(first.is_some());
    let devices = reports.iter().flat_map(|report| &report.devices);
    let refused = devices.fold(0u64, |sum, device| sum.saturating_add(device.pool.out_of_memory));
    match seen.max(refused) {
        0 => "never out of memory".to_owned(),
        times => {
            let account = first.map(|(report, event)| account(report, event)).unwrap_or_default();
            paint(BAD, format!("out of memory {}{account}", plural(times, "time")))
        }
    }
}

/// What was refused first, and who held most then.
fn account(report: &Report, event: &Event) -> String {
    let mut text = format!(": {} asked", bytes(event.requested_bytes.unwrap_or_default()));
    if let Some(limit) = event.state.and_then(|state| state.limit_bytes) {
        let _ = write!(text, ", limit {}", bytes(limit));
    }
    let holder = event.holders.first().and_then(|holder| report.sites.get(holder.site as usize));
    if let Some(site) = holder {
        let _ = write!(text, "; most held by {}", stack::line(report, &site.stack, 1));
    }
    text
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
    let devices =
        reports.iter().flat_map(|report| report.devices.iter().map(move |device| (report, device)));
    match devices.max_by_key(|(_, device)| device.fragmentation.free_bytes) {
        None => "no device".to_owned(),
        Some((report, device)) if free::served_nothing(device) => {
            format!("the pool {}", free::nothing_served(report))
        }
        Some((_, device)) => free::line(device),
    }
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
    let sites = growing + never_freed;
    let unknown = reports.iter().filter(|report| !is_of_an_exit(report)).count() as u64;
    let unknown = match unknown {
        0 => None,
        1 => Some("not known: 1 process did not end by itself".to_owned()),
        n => Some(format!("not known: {} did not end by themselves", plural(n, "process"))),
    };
    let found = (sites > 0).then(|| {
        let sites = plural(sites, "site");
        format!("{} at {sites}: {growing} growing, {never_freed} never freed", bytes(held))
    });
    match (found, unknown) {
        (None, None) => "none".to_owned(),
        (found, unknown) => {
            let parts: Vec<_> = found.into_iter().chain(unknown).collect();
            paint(WARN, parts.join("; "))
        }
    }
}

/// The reports, or the folder if it has them all and no others.
fn targets(found: &[Found]) -> String {
    let mut paths: Vec<&PathBuf> = found.iter().map(|found| &found.path).collect();
    paths.sort();
    let folder = paths[0].parent().unwrap_or(Path::new("."));
    let in_folder = json_files(folder).unwrap_or_default();
    if paths.len() > NAMED && in_folder.iter().eq(paths.iter().copied()) {
        return shell(&relative(folder));
    }
    let names: Vec<_> = paths.iter().map(|path| shell(&relative(path))).collect();
    names.join(" ")
}

/// Shorter to type, where the report is in or below this folder.
fn relative(path: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(std::fs::canonicalize).ok();
    let below = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    match below {
        Some(below) if below.as_os_str().is_empty() => PathBuf::from("."),
        below => below.unwrap_or_else(|| path.to_owned()),
    }
}
