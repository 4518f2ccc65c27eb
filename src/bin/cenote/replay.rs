//! `cenote replay`: what the engine would hold, move and ask of the driver for the allocations of a recorded job.

use std::path::{Path, PathBuf};

use cenote::conf::{self, Settings, parse_bytes};
use cenote::replay::{self, FailedAt, Outcome as Replayed, Setup};
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure, Outcome};
use crate::render::{BAD, bytes, count, paint, table};
use crate::traces;

/// Version of the JSON.
const SCHEMA: &str = "cenote.replay/1";

/// Replay allocation traces through the engine on a simulated card: what it would hold, move and ask of the driver.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Traces in the format GTR1.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Hold the engine to so many bytes, such as 20GiB.
    #[arg(long, value_name = "BYTES", value_parser = size, conflicts_with = "limit_ratio")]
    limit: Option<u64>,
    /// Hold it to the trace's peak of live bytes times this.
    #[arg(long, value_name = "RATIO", value_parser = ratio)]
    limit_ratio: Option<f64>,
    /// A setting of memory from the engine, such as slack:0; repeat it for more (the grammar of CENOTE_CONF).
    #[arg(short, long, value_name = "KEY:VALUE")]
    conf: Vec<String>,
    /// Do not look for the smallest limit that each trace fits: it takes ten more replays.
    #[arg(long)]
    no_min_cap: bool,
    /// Make sure that no two live blocks overlap and that each has its memory. Slower; times mean nothing then.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn size(text: &str) -> Result<u64, &'static str> {
    parse_bytes(text).ok_or("it takes a size such as 20GiB")
}

fn ratio(text: &str) -> Result<f64, &'static str> {
    let ratio = text.parse::<f64>().ok().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
    ratio.ok_or("it takes a number above 0 such as 1.02")
}

/// A replay, its limit, and the smallest one that would do.
struct Row {
    limit: Option<u64>,
    replayed: Replayed,
    min_cap_ratio: Option<f64>,
}

pub(crate) fn replay(options: &Options) -> anyhow::Result<Outcome> {
    let settings = settings(&options.conf)?;
    let mut rows = Vec::new();
    let mut status = 0;
    for path in &options.traces {
        match row(path, options, &settings) {
            Ok(row) => {
                status = status.max(if row.replayed.failed_at.is_some() { FAILED } else { 0 });
                rows.push(row);
            }
            Err(failure) => {
                anstream::eprintln!("cenote: {failure}");
                status = status.max(failure.status);
            }
        }
    }
    let outcome = if options.json {
        let traces: Vec<_> = rows.iter().map(|row| to_json(row, settings.slack)).collect();
        Outcome::json(&json!({ "schema": SCHEMA, "traces": traces }))?
    } else {
        Outcome::of(page(&rows, !options.no_min_cap))
    };
    Ok(Outcome { status, ..outcome })
}

/// What `--conf` says, with a word on what is wrong in it or does nothing here.
pub(crate) fn settings(conf: &[String]) -> Result<Settings, Failure> {
    let (settings, mut problems) = conf::parse(&conf.join(","));
    if settings != taken(&settings) {
        problems
            .push(format!("a replay takes {}; other keys change nothing in it", TAKEN.join(", ")));
    }
    for problem in &problems {
        anstream::eprintln!("cenote: {problem}");
    }
    match settings.strict && !problems.is_empty() {
        true => Err(Failure::new(FAILED, "nothing was replayed, because of strict:true in --conf")),
        false => Ok(settings),
    }
}

/// The keys that change something in a replay.
const TAKEN: [&str; 7] = [
    "limit",
    "per_process_memory_fraction",
    "garbage_collection_threshold",
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "roundup_power2_divisions",
    "slack",
];

/// Of the settings, those.
fn taken(settings: &Settings) -> Settings {
    Settings {
        limit: settings.limit,
        per_process_memory_fraction: settings.per_process_memory_fraction,
        garbage_collection_threshold: settings.garbage_collection_threshold,
        max_split_size: settings.max_split_size,
        max_non_split_rounding: settings.max_non_split_rounding,
        roundup_power2_divisions: settings.roundup_power2_divisions,
        slack: settings.slack,
        strict: settings.strict,
        ..Settings::default()
    }
}

fn row(path: &Path, options: &Options, settings: &Settings) -> Result<Row, Failure> {
    let trace = traces::read(path)?;
    // Of the limits, an option wins over a setting.
    let by_ratio = options.limit_ratio.map(|ratio| (trace.peak_live as f64 * ratio) as u64);
    let setup = Setup::of(settings, &trace);
    let limit = options.limit.or(by_ratio).or(setup.limit);
    let setup = Setup { limit, check: options.check, ..setup };
    let at_fault = |error| traces::at_fault(path, &error);
    let replayed = replay::replay(&trace, &setup).map_err(at_fault)?;
    let min_cap_ratio = match options.no_min_cap {
        true => None,
        false => replay::min_cap_ratio(&trace, &setup).map_err(at_fault)?,
    };
    Ok(Row { limit, replayed, min_cap_ratio })
}

fn page(rows: &[Row], with_min_cap: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    // What fits a hundred columns; the rest is in the JSON.
    let mut header =
        vec!["trace", "live", "reserved", "ratio", "created", "moved", "driver", "event"];
    if with_min_cap {
        header.push("min cap");
    }
    let right: Vec<_> = (1..header.len()).collect();
    let lines = rows.iter().map(|Row { replayed, min_cap_ratio, .. }| {
        let mut line = vec![
            replayed.trace.clone(),
            bytes(replayed.peak_live),
            bytes(replayed.peak_reserved),
            replayed.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.4}")),
            count(replayed.pages_created),
            bytes(replayed.moved_bytes),
            format!("{:.1} ms", replayed.driver_ms),
            format!("{:.0} ns", replayed.ns_per_event),
        ];
        if with_min_cap {
            line.push(min_cap_ratio.map_or("> 2".to_owned(), |ratio| format!("{ratio:.3}")));
        }
        line
    });
    let mut text = table(&header, &right, lines.collect());
    for Row { limit, replayed, .. } in rows {
        if let Some(failed) = &replayed.failed_at {
            text.push_str(&refusal(&replayed.trace, failed, *limit));
        }
    }
    text
}

fn refusal(trace: &str, failed: &FailedAt, limit: Option<u64>) -> String {
    let why = match failed.code {
        Some(code) => format!("the card answered with code {code}"),
        None => "out of memory".to_owned(),
    };
    let limit = limit.map(|limit| format!(", limit {}", bytes(limit))).unwrap_or_default();
    let (event, asked) = (count(failed.event), bytes(failed.bytes));
    let line = format!("{trace}: {why} at event {event}: {asked} asked{limit}");
    format!("  {}\n", paint(BAD, line))
}

fn to_json(Row { limit, replayed, min_cap_ratio }: &Row, slack: f64) -> Value {
    let failed_at = replayed
        .failed_at
        .map(|failed| json!({ "event": failed.event, "bytes": failed.bytes, "code": failed.code }));
    json!({
        "trace": replayed.trace,
        "limit_bytes": limit,
        "slack": slack,
        "events": replayed.events,
        "peak_live_bytes": replayed.peak_live,
        "peak_reserved_bytes": replayed.peak_reserved,
        "ratio": replayed.ratio,
        "pages_created": replayed.pages_created,
        "pages_moved": replayed.pages_moved,
        "moved_bytes": replayed.moved_bytes,
        "collected_bytes": replayed.collected_bytes,
        "misses": replayed.misses,
        "driver_ms": replayed.driver_ms,
        "ns_per_event": replayed.ns_per_event,
        "fragmentation": {
            "internal_ratio": replayed.internal_ratio,
            "free_bytes": replayed.free_bytes,
        },
        "failed_at": failed_at,
        "min_cap_ratio": min_cap_ratio,
    })
}
