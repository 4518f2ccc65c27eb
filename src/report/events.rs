//! Events with names instead of addresses.

use std::collections::HashSet;

use crate::ledger::{Happening, SiteId};

use super::frames::Frames;
use super::sites::SiteIndex;
use super::{Event, Holder, Snapshot};

/// Sites that held memory when an allocation was refused.
pub(super) fn holders(snapshot: &Snapshot<'_>) -> HashSet<SiteId> {
    let holders = snapshot.events.0.iter().flat_map(|event| &event.holders);
    holders.map(|(site, ..)| *site).collect()
}

/// The report's events, and how many were cut.
pub(super) fn describe(
    snapshot: &Snapshot<'_>,
    index: &SiteIndex,
    frames: &mut Frames,
) -> (Vec<Event>, u64) {
    let (happenings, cut) = &snapshot.events;
    let holder = |&(site, bytes, blocks): &(SiteId, u64, u64)| {
        Some(Holder { site: index.get(site)?, bytes, blocks })
    };
    let event = |happening: &Happening| Event {
        kind: happening.kind,
        at_ns: happening.at_ns,
        device: happening.device,
        address: happening.address.map(|address| format!("{address:#x}")),
        requested_bytes: happening.requested_bytes,
        state: happening.state,
        holders: happening.holders.iter().filter_map(holder).collect(),
        stack: frames.stack(&happening.stack),
        allocated_at: frames.stack(&happening.allocated_at),
        freed_at: frames.stack(&happening.freed_at),
        text: happening.text.clone(),
    };
    (happenings.iter().map(event).collect(), *cut)
}
