//! Which settings a recorded job would gain by: tried by replay, one key after the other and then together.
//!
//! A search over all values of all keys would take a thousand replays and find the same: keys hardly depend on each other. So each
//! value is tried alone, the best is kept, and the other keys are tried beside it, for each of the goals.
//!
//! # What pays
//! Less memory, or a smaller card, is worth something from 1 % and 32 MiB on, if the driver's calls take no more than 0.5 % of the
//! job's time, or 10 ms, longer for it. Less time is worth something from 0.1 % of the job's time on, and a tenth of what the driver's
//! calls take, if it costs no more than 5 % of memory. What does not pay is not advised.

use super::outcome::{ReplayError, Setup};
use super::run::{min_cap_ratio, replay};
use super::trace::Trace;
use crate::conf;

/// Values of each key that are tried. Of `garbage_collection_threshold` they are tried with a limit, without which it does nothing.
const KEYS: [(&str, &[&str]); 4] = [
    ("slack", &["0", "0.005", "0.01", "0.03", "0.05", "0.1", "0.25"]),
    ("roundup_power2_divisions", &["16", "8", "4"]),
    ("max_split_size_mb", &["64", "256"]),
    ("max_non_split_rounding_mb", &["64", "256"]),
];
const THRESHOLDS: (&str, &[&str]) = ("garbage_collection_threshold", &["0.8", "0.9", "0.95"]);
const MIB: u64 = 1 << 20;

/// What advice is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// To get to the end at all.
    Fit,
    /// To hold less.
    Memory,
    /// To fit a smaller card.
    Card,
    /// To wait less for the driver.
    Time,
}

/// What a replay with some settings takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Measure {
    /// The settings, in the grammar of `CENOTE_CONF`.
    pub conf: String,
    /// Whether it got to the end.
    pub fits: bool,
    /// Most bytes taken from the card at once.
    pub peak_reserved: u64,
    /// The smallest limit under which it gets to the end; none beyond twice the peak of live bytes, or if that was not looked for.
    pub smallest_card: Option<u64>,
    /// Milliseconds that the driver's calls would take.
    pub driver_ms: f64,
}

/// One piece of advice.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// What for.
    pub goal: Goal,
    /// What to set, and what it would take then.
    pub measure: Measure,
}

/// All that is advised for a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Advised {
    /// As the settings are now.
    pub now: Measure,
    /// What pays, the most urgent first.
    pub advice: Vec<Advice>,
    /// Replays that it took.
    pub replays: u64,
}

/// Looks for settings that pay for a trace, beside those of `conf`, which are in force now. `progress` is told how many replays are
/// behind it.
///
/// # Errors
/// If the engine is at fault.
pub fn advise(
    trace: &Trace,
    conf: &str,
    progress: &mut dyn FnMut(u64),
) -> Result<Advised, ReplayError> {
    let mut search = Search { trace, conf, replays: 0, progress };
    let mut now = search.measure("")?;
    now.smallest_card = search.smallest_card("")?;
    let alone = search.each("", &KEYS)?;
    let mut advice = Vec::new();
    for goal in [Goal::Fit, Goal::Memory, Goal::Time] {
        let Some(best) = best(goal, &now, trace, &alone) else { continue };
        let together = search.each(&best.conf, &others(&best.conf))?;
        let measure = self::best(goal, &best, trace, &together).unwrap_or(best);
        let smallest_card = search.smallest_card(&measure.conf)?;
        advice.push(Advice { goal, measure: Measure { smallest_card, ..measure } });
    }
    advice.extend(search.card(&now)?.map(|measure| Advice { goal: Goal::Card, measure }));
    Ok(Advised { now, advice, replays: search.replays })
}

/// Keys that a configuration does not name.
fn others(conf: &str) -> Vec<(&'static str, &'static [&'static str])> {
    let is_other = |&(key, _): &(&str, &[&str])| !conf.contains(&format!("{key}:"));
    KEYS.into_iter().filter(is_other).collect()
}

/// The best of some measures for a goal, if it pays against another one.
fn best(goal: Goal, now: &Measure, trace: &Trace, of: &[Measure]) -> Option<Measure> {
    let that_pay = of.iter().filter(|measure| pays(goal, now, measure, trace));
    let rank = |measure: &&Measure| match goal {
        Goal::Time => ((measure.driver_ms * 1e3) as u64, measure.peak_reserved),
        Goal::Fit | Goal::Memory | Goal::Card => {
            (measure.peak_reserved, (measure.driver_ms * 1e3) as u64)
        }
    };
    that_pay.min_by_key(rank).cloned()
}

/// Whether settings are worth it against those now.
fn pays(goal: Goal, now: &Measure, then: &Measure, trace: &Trace) -> bool {
    let job_ms = trace.duration_us as f64 / 1e3;
    let more_ms = then.driver_ms - now.driver_ms;
    let saves = |now: u64, then: u64| now.saturating_sub(then) >= (now / 100).max(32 * MIB);
    let is_cheap = more_ms <= (job_ms * 0.005).max(10.0);
    match goal {
        Goal::Fit => then.fits && !now.fits,
        _ if !then.fits || !now.fits => false,
        Goal::Memory => is_cheap && saves(now.peak_reserved, then.peak_reserved),
        Goal::Card => {
            let card = then.smallest_card.unwrap_or(u64::MAX);
            is_cheap && saves(now.peak_reserved, card)
        }
        Goal::Time => {
            let most = now.peak_reserved + now.peak_reserved / 20;
            -more_ms >= (job_ms * 0.001).max(now.driver_ms / 10.0) && then.peak_reserved <= most
        }
    }
}

struct Search<'a> {
    trace: &'a Trace,
    conf: &'a str,
    replays: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Search<'_> {
    fn setup(&self, more: &str) -> Setup {
        let (settings, _) = conf::parse(&format!("{},{more}", self.conf));
        Setup::of(&settings, self.trace)
    }

    fn step(&mut self, replays: u64) {
        self.replays += replays;
        (self.progress)(self.replays);
    }

    fn measure(&mut self, more: &str) -> Result<Measure, ReplayError> {
        let outcome = replay(self.trace, &self.setup(more))?;
        self.step(1);
        Ok(Measure {
            conf: more.to_owned(),
            fits: outcome.failed_at.is_none(),
            peak_reserved: outcome.peak_reserved,
            smallest_card: None,
            driver_ms: outcome.driver_ms,
        })
    }

    /// Each value of some keys beside settings.
    fn each(
        &mut self,
        beside: &str,
        keys: &[(&str, &[&str])],
    ) -> Result<Vec<Measure>, ReplayError> {
        let values = keys.iter().flat_map(|(key, values)| values.iter().map(move |v| (key, v)));
        let comma = if beside.is_empty() { "" } else { "," };
        values.map(|(key, value)| self.measure(&format!("{beside}{comma}{key}:{value}"))).collect()
    }

    /// In whole MiB, so that it can be set.
    fn smallest_card(&mut self, more: &str) -> Result<Option<u64>, ReplayError> {
        let ratio = min_cap_ratio(self.trace, &self.setup(more))?;
        self.step(10);
        let bytes = ratio.map(|ratio| (self.trace.peak_live as f64 * ratio) as u64);
        Ok(bytes.map(|bytes| bytes.next_multiple_of(MIB)))
    }

    /// The smallest limit, if it pays; with the threshold that makes it cheapest.
    fn card(&mut self, now: &Measure) -> Result<Option<Measure>, ReplayError> {
        let Some(card) = now.smallest_card else { return Ok(None) };
        let limit = format!("limit:{}MiB", card / MIB);
        let mut tried = vec![self.measure(&limit)?];
        tried.extend(self.each(&limit, &[THRESHOLDS])?);
        tried.iter_mut().for_each(|measure| measure.smallest_card = Some(card));
        let that_pay = tried.into_iter().filter(|then| pays(Goal::Card, now, then, self.trace));
        Ok(that_pay.min_by(|one, other| one.driver_ms.total_cmp(&other.driver_ms)))
    }
}
