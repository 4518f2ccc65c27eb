//! How a trace is replayed, and what comes of it.

use super::books::Violation;
use super::run::card_bytes;
use super::trace::Trace;
use crate::conf::Settings;
use crate::cuda::DevicePtr;
use crate::pool::engine::Rules;

/// How a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setup {
    /// Bytes that the engine may hold.
    pub limit: Option<u64>,
    /// See [`EngineSettings::slack`](crate::pool::engine::EngineSettings::slack).
    pub slack: f64,
    /// What the configuration adds.
    pub rules: Rules,
    /// Also make sure that no two live blocks overlap and that every one has its memory. Takes several times as long.
    pub check: bool,
}

impl Setup {
    /// What the settings say, on the card that [`card_bytes`] gives a trace.
    pub fn of(settings: &Settings, trace: &Trace) -> Self {
        let share = settings.per_process_memory_fraction;
        let share = share.map(|share| (card_bytes(trace) as f64 * share) as u64);
        Setup {
            limit: [settings.limit, share].into_iter().flatten().min(),
            slack: settings.slack,
            rules: Rules::of(settings),
            check: false,
        }
    }
}

/// Where a replay ended early, since the engine refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAt {
    /// Number of the event, from 1.
    pub event: u64,
    /// What was asked for.
    pub bytes: u64,
    /// The driver's code where it was not out of memory.
    pub code: Option<u32>,
}

/// What came of a replay. Bytes where no other unit is named; peaks of a replay that failed are those up to there.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Name of the trace.
    pub trace: String,
    /// Events replayed.
    pub events: u64,
    /// Most bytes live at once, as requested, in the whole trace.
    pub peak_live: u64,
    /// Most bytes taken from the card at once.
    pub peak_reserved: u64,
    /// `peak_reserved` over `peak_live`; none where nothing was ever live.
    pub ratio: Option<f64>,
    /// Handles created.
    pub pages_created: u64,
    /// Handles taken from one address to another.
    pub pages_moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// See [`Stats::collected_bytes`](crate::pool::engine::Stats::collected_bytes).
    pub collected_bytes: u64,
    /// Requests that no free block held.
    pub misses: u64,
    /// Milliseconds that the driver's calls would have taken, by what they cost on an H200.
    pub driver_ms: f64,
    /// Nanoseconds of this machine for an event, the simulated card included.
    pub ns_per_event: f64,
    /// When most was live: bytes of the blocks beyond what was requested, over bytes of the blocks. None where the replay did
    /// not get there.
    pub internal_ratio: Option<f64>,
    /// When most was live: bytes taken from the card that were in no block.
    pub free_bytes: Option<u64>,
    /// The event that was refused.
    pub failed_at: Option<FailedAt>,
}

/// A fault of the engine: its numbers mean nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It broke a rule of the driver.
    #[error("event {event}: the engine broke a rule of the driver: {violation}")]
    Card {
        /// Number of the event, from 1.
        event: u64,
        /// The rule.
        violation: Violation,
    },
    /// It handed out a wrong block.
    #[error("event {event}: the engine handed out a wrong block: {what}")]
    Block {
        /// Number of the event, from 1.
        event: u64,
        /// What is wrong with it.
        what: String,
    },
    /// It did not take a live block back.
    #[error("event {event}: the engine does not know the live block at {address:#x}")]
    Lost {
        /// Number of the event, from 1.
        event: u64,
        /// The block.
        address: DevicePtr,
    },
    /// Its books are wrong.
    #[error("the engine says that it held {said} bytes at most, the card counted {counted}{limit}")]
    Books {
        /// By the engine.
        said: u64,
        /// By the card.
        counted: u64,
        /// What was allowed, in words.
        limit: String,
    },
}
