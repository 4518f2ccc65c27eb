//! From the books of a process to its report.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::ledger::{Block, Books, Happening, SiteId};

use super::frames::Frames;
use super::leaks::LiveAtExit;
use super::sites::{self, SiteIndex};
use super::{Coverage, Live, Note, Process, Reason, Report, SCHEMA, Segment, Truncated};
use super::{devices, events};

/// Everything that a report is made of. What a dead process can't tell any more is empty.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// The numbers.
    pub books: &'a Books,
    /// Why.
    pub reason: Reason,
    /// See [`Report::complete`].
    pub complete: bool,
    /// Who.
    pub process: Process,
    /// The configuration in force.
    pub configuration: std::collections::BTreeMap<String, String>,
    /// What was seen.
    pub coverage: Coverage,
    /// Events, and how many were cut.
    pub events: (Vec<Happening>, u64),
    /// Remarks.
    pub notes: Vec<Note>,
    /// Live blocks by address; none where only the books are left.
    pub live: Option<Vec<(u64, Block)>>,
    /// Blocks that were freed after exit had begun: site, bytes.
    pub freed_during_exit: Vec<(SiteId, Block)>,
    /// Segments of the pools with their device.
    pub segments: Vec<(u32, Segment)>,
    /// Name and UUID of each device, by ordinal.
    pub devices: Vec<(u32, String, String)>,
}

/// Makes the report.
pub fn build(snapshot: &Snapshot<'_>) -> Report {
    let mut frames = Frames::of(snapshot.books, &snapshot.process.executable);
    let tallies = sites::tally(snapshot.books, &frames);
    let live = LiveAtExit::of(snapshot);
    let owners = devices::Owners::sum(&tallies);

    let (chosen, sites_cut) = sites::choose(tallies, &events::holders(snapshot));
    let index = SiteIndex::of(&chosen);
    let sites = sites::describe(&chosen, snapshot.live.as_deref(), &mut frames);
    let (events, events_cut) = events::describe(snapshot, &index, &mut frames);
    let frames = frames.named(snapshot.process.started_unix_ns);
    // After the naming, since the name of a function is what tells a cache from its user.
    let leaks = live.classify(&sites, &frames, &index);

    let (devices, segments_cut) = devices::describe(snapshot, owners, leaks.by_device);
    Report {
        schema: SCHEMA.to_owned(),
        cenote_version: env!("CARGO_PKG_VERSION").to_owned(),
        reason: snapshot.reason,
        complete: snapshot.complete,
        written_unix_ns: now_unix_ns(),
        process: snapshot.process.clone(),
        configuration: snapshot.configuration.clone(),
        coverage: snapshot.coverage.clone(),
        devices,
        host: Live::of(&snapshot.books.host),
        sites,
        frames,
        events,
        notes: snapshot.notes.clone(),
        truncated: Truncated {
            sites: sites_cut,
            segments: segments_cut,
            events: events_cut,
            site_table_full: snapshot
                .books
                .site_table_full
                .load(std::sync::atomic::Ordering::Relaxed),
            leak_bytes: leaks.cut_bytes,
        },
    }
}

fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
