//! One replay: a trace, an engine, a simulated card, and what came of it.

use std::time::Instant;

use super::card::SimCard;
use super::check::Live;
use super::outcome::{FailedAt, Outcome, ReplayError, Setup};
use super::trace::{Event, Trace};
use crate::cuda::{CuResult, DevicePtr, Failure};
use crate::pool::engine::{Engine, EngineSettings, Lane};

/// Memory of the card where nothing else is said: that of an H200.
const CARD: u64 = 141 << 30;
/// Memory of the largest card: the engine takes four times the addresses, and a process has 2^47.
const LARGEST_CARD: u64 = 1 << 44;

/// Steps between 1 and 2 that [`min_cap_ratio`] tells apart.
const STEPS: u64 = 1000;

/// Memory of the card that a trace is played on.
pub fn card_bytes(trace: &Trace) -> u64 {
    // With less than twice the peak the card would be a limit of its own.
    trace.peak_live.saturating_mul(2).clamp(CARD, LARGEST_CARD)
}

/// Replays a trace. A refusal ends it and is in the outcome.
///
/// # Errors
/// If the engine is at fault.
pub fn replay(trace: &Trace, setup: &Setup) -> Result<Outcome, ReplayError> {
    let mut player = Player::new(trace, setup);
    let begun = Instant::now();
    let (before, after) = trace.events.split_at(trace.peak_after);
    player.play(before)?;
    let at_peak = player.failed_at.is_none().then(|| player.engine.stats());
    player.play(after)?;
    let ns = begun.elapsed().as_nanos() as f64;

    let (stats, card) = (player.engine.stats(), player.engine.card());
    player.check_books(stats.reserved_bytes.peak)?;
    let over = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    Ok(Outcome {
        trace: trace.name.clone(),
        events: player.events,
        peak_live: trace.peak_live,
        peak_reserved: card.peak(),
        ratio: over(card.peak(), trace.peak_live),
        pages_created: stats.pages_created,
        pages_moved: stats.pages_moved,
        moved_bytes: stats.moved_bytes,
        collected_bytes: stats.collected_bytes,
        misses: stats.misses,
        driver_ms: card.cost_ns() as f64 / 1e6,
        ns_per_event: ns / player.events.max(1) as f64,
        internal_ratio: at_peak.and_then(|stats| {
            let (blocks, requested) =
                (stats.allocated_bytes.current, stats.requested_bytes.current);
            over(blocks.saturating_sub(requested), blocks)
        }),
        free_bytes: at_peak.map(|stats| {
            stats.reserved_bytes.current.saturating_sub(stats.allocated_bytes.current)
        }),
        failed_at: player.failed_at,
    })
}

/// The smallest limit, over the trace's peak of live bytes, under which it is replayed to the end: to the thousandth, between 1
/// and 2. None if 2 is not enough. Found by halving, so as if a larger limit could never do harm.
///
/// # Errors
/// If the engine is at fault.
pub fn min_cap_ratio(trace: &Trace, setup: &Setup) -> Result<Option<f64>, ReplayError> {
    let fits = |step: u64| {
        let limit = u128::from(trace.peak_live) * u128::from(STEPS + step) / u128::from(STEPS);
        let limit = Some(u64::try_from(limit).unwrap_or(u64::MAX));
        replay(trace, &Setup { limit, ..*setup }).map(|outcome| outcome.failed_at.is_none())
    };
    // All that is known to be too small lies below `low`; all from `high` on does fit, or is beyond 2.
    let (mut low, mut high) = (0, STEPS + 1);
    while low < high {
        let middle = (low + high) / 2;
        match fits(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok((high <= STEPS).then(|| (STEPS + high) as f64 / STEPS as f64))
}

struct Player {
    engine: Engine<SimCard>,
    lane: Lane,
    /// Where each block is or was.
    addresses: Vec<DevicePtr>,
    live: Option<Live>,
    /// Handles moved when all live blocks were last looked at.
    moved: u64,
    events: u64,
    failed_at: Option<FailedAt>,
}

impl Player {
    fn new(trace: &Trace, setup: &Setup) -> Self {
        let total = card_bytes(trace);
        let settings = EngineSettings { total, limit: setup.limit, slack: setup.slack };
        let engine = Engine::new(SimCard::new(total), settings).with_rules(setup.rules);
        Player {
            lane: engine.lane(),
            engine,
            addresses: vec![0; trace.blocks as usize],
            live: setup.check.then(Live::default),
            moved: 0,
            events: 0,
            failed_at: None,
        }
    }

    /// Plays events, up to a refusal.
    fn play(&mut self, events: &[Event]) -> Result<(), ReplayError> {
        for &event in events {
            if self.failed_at.is_some() {
                break;
            }
            self.events += 1;
            match event {
                Event::Allocate { block, stream, bytes } => {
                    self.allocate(block as usize, stream as usize, bytes)?;
                }
                Event::Free { block } => self.free(block as usize)?,
                // The engine asks its events, and on this card they are done at once.
                Event::Completed { .. } => {}
            }
            if self.engine.card().is_broken() {
                return self.check_card();
            }
        }
        Ok(())
    }

    fn allocate(&mut self, block: usize, stream: usize, bytes: u64) -> Result<(), ReplayError> {
        match self.engine.allocate(&mut self.lane, bytes, stream, 0) {
            Ok(address) => {
                self.addresses[block] = address;
                self.check(address, bytes)
            }
            Err(failure) => {
                let code = match failure {
                    Failure::OutOfMemory => None,
                    Failure::Other(CuResult(code)) => Some(code),
                };
                self.failed_at = Some(FailedAt { event: self.events, bytes, code });
                Ok(())
            }
        }
    }

    fn free(&mut self, block: usize) -> Result<(), ReplayError> {
        let address = self.addresses[block];
        if let Some(live) = &mut self.live {
            live.remove(address);
        }
        let freed = self.engine.free(&mut self.lane, address);
        freed.map_err(|_| ReplayError::Lost { event: self.events, address })?;
        Ok(())
    }

    /// A new block, and the old ones whenever pages have moved since.
    fn check(&mut self, address: DevicePtr, bytes: u64) -> Result<(), ReplayError> {
        let Some(live) = &mut self.live else { return Ok(()) };
        live.add(self.engine.card(), self.events, address, bytes)?;
        let moved = self.engine.stats().pages_moved;
        if moved != self.moved {
            self.moved = moved;
            live.all_usable(self.engine.card(), self.events)?;
        }
        Ok(())
    }

    fn check_card(&self) -> Result<(), ReplayError> {
        match self.engine.card().violation() {
            Some(violation) => Err(ReplayError::Card { event: self.events, violation }),
            None => Ok(()),
        }
    }

    fn check_books(&self, said: u64) -> Result<(), ReplayError> {
        let (counted, limit) = (self.engine.card().peak(), self.engine.limit());
        if said == counted && counted <= limit {
            return Ok(());
        }
        let limit = match limit {
            u64::MAX => String::new(),
            limit => format!(", the limit is {limit}"),
        };
        Err(ReplayError::Books { said, counted, limit })
    }
}
