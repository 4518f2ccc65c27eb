//! `cenote advise`: what to set for a recorded job, what that would save and what it would cost.

use std::path::{Path, PathBuf};

use cenote::replay::{Advised, Goal, Measure, Trace, advise as search};
use serde_json::{Value, json};

use crate::exit::{FAILED, Failure, Outcome};
use crate::progress::Progress;
use crate::render::{bytes, count, signed_bytes, table};
use crate::replay::settings;
use crate::traces;

/// Version of the JSON.
const SCHEMA: &str = "cenote.advice/1";
/// Replays for a trace, about.
const REPLAYS: u64 = 50;

/// Replay allocation traces under many settings, and say which ones pay.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Traces in the format GTR1, as the key trace writes them.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// A setting in force now; repeat it for more (the grammar of CENOTE_CONF).
    #[arg(short, long, value_name = "KEY:VALUE")]
    conf: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn advise(options: &Options) -> anyhow::Result<Outcome> {
    settings(&options.conf)?;
    let conf = options.conf.join(",");
    let mut found = Vec::new();
    let mut status = 0;
    for path in &options.traces {
        match of(path, &conf) {
            Ok(one) => {
                status = status.max(if one.1.now.fits { 0 } else { FAILED });
                found.push(one);
            }
            Err(failure) => {
                anstream::eprintln!("cenote: {failure}");
                status = status.max(failure.status);
            }
        }
    }
    let outcome = if options.json {
        let traces: Vec<_> = found.iter().map(|(trace, found)| to_json(trace, found)).collect();
        Outcome::json(&json!({ "schema": SCHEMA, "conf": conf, "traces": traces }))?
    } else {
        Outcome::of(page(&found))
    };
    Ok(Outcome { status, ..outcome })
}

fn of(path: &Path, conf: &str) -> Result<(Trace, Advised), Failure> {
    let trace = traces::read(path)?;
    let bar = Progress::new(&trace.name, REPLAYS);
    let found = search(&trace, conf, &mut |done| bar.at(done));
    found.map_err(|error| traces::at_fault(path, &error)).map(|found| (trace, found))
}

fn page(found: &[(Trace, Advised)]) -> String {
    if found.is_empty() {
        return String::new();
    }
    let header = ["trace", "set", "reserved", "saves", "smallest card", "saves", "driver", "costs"];
    let mut lines = Vec::new();
    for (trace, Advised { now, advice, .. }) in found {
        lines.push(line(trace.name.clone(), "(as it is)", now, None));
        for one in advice {
            lines.push(line(String::new(), &one.measure.conf, &one.measure, Some(now)));
        }
    }
    let mut text = table(&header, &[2, 3, 4, 5, 6, 7], lines);
    let unadvised: Vec<_> = found.iter().filter(|(_, found)| found.advice.is_empty()).collect();
    if !unadvised.is_empty() {
        let names: Vec<_> = unadvised.iter().map(|(trace, _)| trace.name.as_str()).collect();
        let replays: u64 = unadvised.iter().map(|(_, found)| found.replays).sum();
        let (names, replays) = (names.join(", "), count(replays));
        text.push_str(&format!("\n  nothing pays, after {replays} replays: {names}\n"));
    }
    text
}

fn line(trace: String, set: &str, measure: &Measure, now: Option<&Measure>) -> Vec<String> {
    let card = |measure: &Measure| measure.smallest_card.map(|card| card as i64);
    let saved = now.map(|now| now.peak_reserved as i64 - measure.peak_reserved as i64);
    let smaller = now.and_then(|now| Some(card(now)? - card(measure)?));
    let more = now.map(|now| measure.driver_ms - now.driver_ms);
    let text = |value: Option<i64>| value.map(signed_bytes).unwrap_or_default();
    let reserved = match measure.fits {
        true => bytes(measure.peak_reserved),
        false => "does not fit".to_owned(),
    };
    vec![
        trace,
        set.to_owned(),
        reserved,
        text(saved),
        measure.smallest_card.map_or_else(|| "> twice live".to_owned(), bytes),
        text(smaller),
        format!("{:.1} ms", measure.driver_ms),
        more.map(|more| format!("{more:.1} ms")).unwrap_or_default(),
    ]
}

fn to_json(trace: &Trace, Advised { now, advice, replays }: &Advised) -> Value {
    let advice = advice.iter().map(|one| {
        let mut json = of_measure(&one.measure);
        json["goal"] = match one.goal {
            Goal::Fit => "fit",
            Goal::Memory => "memory",
            Goal::Card => "card",
            Goal::Time => "time",
        }
        .into();
        json
    });
    json!({
        "trace": trace.name,
        "events": trace.events.len(),
        "peak_live_bytes": trace.peak_live,
        "duration_ms": trace.duration_us as f64 / 1e3,
        "now": of_measure(now),
        "advice": advice.collect::<Vec<_>>(),
        "replays": replays,
    })
}

fn of_measure(measure: &Measure) -> Value {
    json!({
        "conf": measure.conf,
        "fits": measure.fits,
        "peak_reserved_bytes": measure.peak_reserved,
        "smallest_card_bytes": measure.smallest_card,
        "driver_ms": measure.driver_ms,
    })
}
