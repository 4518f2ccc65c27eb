//! Call sites: those that hold most, with names.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use crate::ledger::{Block, Books, SiteId, Sites};

use super::frames::Frames;
use super::{Kind, Site, SizeCount};

/// Sites in a report.
const SITES: usize = 200;
/// Of these, sites that are named for the memory they hold, before those that an event points to.
const SITES_BY_BYTES: usize = 100;
/// Different sizes that are told of each site.
const SIZES: usize = 8;

/// The numbers of a site, before anything is named.
pub(super) struct Tally {
    pub(super) id: SiteId,
    pub(super) kind: Kind,
    pub(super) device: u32,
    pub(super) owner: String,
    pub(super) live_bytes: u64,
    pub(super) live_blocks: u64,
    peak_bytes: u64,
    total_bytes: u64,
    total_blocks: u64,
    frames: Vec<u64>,
}

/// Every site in the books, those that hold most first.
pub(super) fn tally(books: &Books, frames: &Frames) -> Vec<Tally> {
    let tally = |(id, slot): (SiteId, &crate::ledger::SiteSlot)| {
        let stack = slot.frames();
        Some(Tally {
            id,
            kind: slot.kind()?,
            device: slot.device(),
            owner: frames.owner(&stack),
            live_bytes: slot.live.get(),
            live_blocks: slot.live_blocks.load(Relaxed),
            peak_bytes: slot.live.peak(),
            total_bytes: slot.total_bytes.load(Relaxed),
            total_blocks: slot.total_blocks.load(Relaxed),
            frames: stack,
        })
    };
    let mut tallies: Vec<_> = Sites::of(books).iter().filter_map(tally).collect();
    tallies.sort_by(|a, b| {
        let rank = |site: &Tally| (site.live_bytes, site.peak_bytes, site.total_bytes);
        rank(b).cmp(&rank(a)).then(a.id.cmp(&b.id))
    });
    tallies
}

/// The sites for the report, in the same order, and how many were cut. Sites that an event points to come before sites
/// that hold little.
pub(super) fn choose(tallies: Vec<Tally>, pointed_to: &HashSet<SiteId>) -> (Vec<Tally>, u64) {
    let Some(cut) = tallies.len().checked_sub(SITES).filter(|&cut| cut > 0) else {
        return (tallies, 0);
    };
    let after = tallies.iter().skip(SITES_BY_BYTES);
    let (first, second): (Vec<_>, Vec<_>) = after.partition(|site| pointed_to.contains(&site.id));
    let rest = first.into_iter().chain(second).take(SITES - SITES_BY_BYTES);
    let kept: HashSet<SiteId> =
        tallies.iter().take(SITES_BY_BYTES).chain(rest).map(|site| site.id).collect();
    (tallies.into_iter().filter(|site| kept.contains(&site.id)).collect(), cut as u64)
}

/// Where a site of the books is in the report.
pub(super) struct SiteIndex(HashMap<SiteId, u32>);

impl SiteIndex {
    pub(super) fn of(chosen: &[Tally]) -> Self {
        SiteIndex(chosen.iter().zip(0..).map(|(site, index)| (site.id, index)).collect())
    }

    /// None for a site that was cut.
    pub(super) fn get(&self, site: SiteId) -> Option<u32> {
        self.0.get(&site).copied()
    }
}

/// The report's entries.
pub(super) fn describe(
    chosen: &[Tally],
    live: Option<&[(u64, Block)]>,
    frames: &mut Frames,
) -> Vec<Site> {
    let mut sizes: HashMap<SiteId, BTreeMap<u64, u64>> = HashMap::new();
    for (_, block) in live.unwrap_or_default() {
        *sizes.entry(block.site).or_default().entry(block.bytes).or_default() += 1;
    }
    let site = |tally: &Tally| Site {
        kind: tally.kind,
        device: (tally.kind != Kind::Host).then_some(tally.device),
        owner: tally.owner.clone(),
        stack: frames.stack(&tally.frames),
        live_bytes: tally.live_bytes,
        live_blocks: tally.live_blocks,
        peak_bytes: tally.peak_bytes,
        total_bytes: tally.total_bytes,
        total_blocks: tally.total_blocks,
        live_sizes: largest(sizes.remove(&tally.id).unwrap_or_default()),
    };
    chosen.iter().map(site).collect()
}

fn largest(sizes: BTreeMap<u64, u64>) -> Vec<SizeCount> {
    let mut sizes: Vec<_> =
        sizes.into_iter().map(|(bytes, blocks)| SizeCount { bytes, blocks }).collect();
    sizes.sort_by_key(|size| std::cmp::Reverse(size.bytes.saturating_mul(size.blocks)));
    sizes.truncate(SIZES);
    sizes
}
