//! Where a request goes that no free block holds: the place that lacks the least memory.
//!
//! Between two live blocks lies a *gap*: free blocks and holes. A request can go to any gap that is long enough, if its holes
//! there are filled. The gap at the end of the heap has no end.

use super::blocks::{Id, NONE, State, UNIT};
use super::heap::Heap;
use super::lend::Offer;
use super::span::PAGE;

/// A place for a request, and the pages that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Runs of addresses to fill, whole pages.
    pub(super) lacks: Vec<(u64, u64)>,
    pub(super) lacking: u64,
    /// What its ends borrow.
    pub(super) offers: Vec<Offer>,
}

/// Gaps that a search for one to fill looks at,
const PROBES: usize = 16;
/// and how many blocks of the size it may hold.
const MOST: u64 = 16;

/// How good a place is: the fewest bytes lacking, then the shortest gap, then the lowest address.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    lacking: u64,
    length: u64,
    at: u64,
}

/// A piece of a gap.
struct Piece {
    begin: u64,
    end: u64,
    is_hole: bool,
}

impl Heap {
    /// The place for `bytes` that lacks the fewest pages; none if the heap's addresses are used up. Of equal ones the
    /// shortest gap, then the lowest address.
    pub(super) fn place(&self, bytes: u64) -> Option<Place> {
        let last = self.span.base + self.span.bytes;
        let mut best: Option<(Rank, Vec<Piece>)> = None;
        for hole in self.holes.at_least(&self.blocks, 1) {
            let Some(gap) = self.gap_of_first_hole(hole) else { continue };
            let (begin, end) = (gap[0].begin, gap[gap.len() - 1].end);
            let places = candidates(&gap, bytes, end == last);
            let rank = |at| Rank {
                lacking: lacking(&gap, at, at + bytes).map(|(begin, end)| end - begin).sum(),
                length: end - begin,
                at,
            };
            let Some(rank) = places.map(rank).min() else { continue };
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                best = Some((rank, gap));
            }
        }
        best.map(|(Rank { at, .. }, gap)| place_in(&gap, at, bytes))
    }

    /// A gap whose pages were taken and that a whole number of such blocks fill: the fewest. Its ends lie on pages of its neighbours,
    /// and are of no use to others; so to fill it saves more than to cut a free block, which makes two more such ends.
    pub(super) fn filling(&self, bytes: u64) -> Option<Place> {
        let last = self.span.base + self.span.bytes;
        // What is left of such a gap beside the hole is less than a page at either end.
        let least = bytes.checked_sub(PAGE)?.saturating_sub(PAGE) / UNIT;
        let holes = self.holes.at_least(&self.blocks, least).take(PROBES);
        let small = holes.take_while(|&hole| self.blocks[hole].bytes <= bytes * MOST);
        let filled = small.filter_map(|hole| {
            let (begin, end) = self.gap_ends(hole);
            let times = (end - begin) / bytes;
            let is_whole = (end - begin).is_multiple_of(bytes) && times <= MOST;
            (is_whole && end < last).then_some((times, begin, hole))
        });
        let (_, begin, hole) = filled.min()?;
        let place = place_in(&self.gap(hole), begin, bytes);
        (place.lacking > 0).then_some(place)
    }

    fn is_gap(&self, id: Id) -> bool {
        id != NONE && matches!(self.blocks[id].state, State::Free | State::Hole)
    }

    /// The first block of the gap that a free block or a hole lies in.
    fn first_of_gap(&self, id: Id) -> Id {
        let mut first = id;
        while self.is_gap(self.blocks[first].prev) {
            first = self.blocks[first].prev;
        }
        first
    }

    fn gap_ends(&self, id: Id) -> (u64, u64) {
        let first = self.first_of_gap(id);
        let last = self.blocks.onward(first).take_while(|&id| self.is_gap(id)).last();
        (self.blocks[first].address, self.blocks[last.unwrap_or(first)].end())
    }

    /// The gap that a free block or a hole lies in.
    fn gap(&self, id: Id) -> Vec<Piece> {
        let piece = |id: Id| {
            let block = &self.blocks[id];
            let is_hole = block.state == State::Hole;
            Piece { begin: block.address, end: block.end(), is_hole }
        };
        let first = self.first_of_gap(id);
        self.blocks.onward(first).take_while(|&id| self.is_gap(id)).map(piece).collect()
    }

    /// The gap around a hole; none if another hole of it is nearer to its beginning.
    fn gap_of_first_hole(&self, hole: Id) -> Option<Vec<Piece>> {
        let blocks = &self.blocks;
        let mut first = hole;
        while let Some(prev) = blocks.neighbour(blocks[first].prev, State::Free) {
            first = prev;
        }
        let is_first = blocks.neighbour(blocks[first].prev, State::Hole).is_none();
        is_first.then(|| self.gap(first))
    }
}

fn place_in(gap: &[Piece], begin: u64, bytes: u64) -> Place {
    let end = begin + bytes;
    let lacks: Vec<_> = lacking(gap, begin, end).collect();
    let lacking = lacks.iter().map(|(begin, end)| end - begin).sum();
    Place { begin, end, lacks, lacking, offers: vec![] }
}

/// Where in a gap a request may begin: at either end, or at either end of a free piece.
fn candidates(gap: &[Piece], bytes: u64, is_last: bool) -> impl Iterator<Item = u64> + '_ {
    let (begin, end) = (gap[0].begin, gap[gap.len() - 1].end);
    let ends = [Some(begin), (!is_last).then(|| end - bytes)].into_iter().flatten();
    let free = gap.iter().filter(|piece| !piece.is_hole);
    let beside = free.flat_map(move |piece| [Some(piece.begin), piece.end.checked_sub(bytes)]);
    ends.chain(beside.flatten()).filter(move |&at| at >= begin && at + bytes <= end)
}

/// The pages that a request in a gap lacks, as runs of addresses.
fn lacking(gap: &[Piece], begin: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let holes = gap.iter().filter(|piece| piece.is_hole);
    holes.filter_map(move |hole| {
        let begin = begin.max(hole.begin) / PAGE * PAGE;
        let end = end.min(hole.end).next_multiple_of(PAGE);
        (begin < end).then_some((begin, end))
    })
}
