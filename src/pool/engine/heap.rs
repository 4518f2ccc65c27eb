//! The blocks of one stream and class of sizes: take, put back, look up. The hit path.

use std::collections::{HashMap, VecDeque};

use super::bins::Bins;
use super::blocks::{Block, Blocks, Id, NONE, State, UNIT};
use super::garbage::Clock;
use super::loans::Loan;
use super::rules::Rules;
use super::span::{PAGE, Span};
use super::users::{Pending, Users};
use super::whole::Whole;
use crate::cuda::Event;

/// Addresses whose memory has moved away, and after which event nothing uses them any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stale {
    pub(super) number: u32,
    pub(super) id: Id,
}

/// The block at the beginning of the addresses: the first that was made, since a block that is cut keeps its beginning, and one that is
/// merged goes to its neighbour before.
const FIRST: Id = 0;

#[derive(Debug)]
pub(super) struct Heap {
    pub(super) blocks: Blocks,
    pub(super) free: Bins,
    pub(super) holes: Bins,
    pub(super) whole: Whole,
    pub(super) clock: Clock,
    pub(super) span: Span,
    /// Freed last and not merged yet: the next request is often of the same size.
    latest: Id,
    /// Little memory may still be taken, when it last missed.
    pub(super) is_short: bool,
    /// Number of the next event of the stream.
    pub(super) next_event: u32,
    /// Whether something was freed since the last one.
    pub(super) is_due: bool,
    /// The stream is gone: nothing is submitted there any more, and no event is to be had.
    pub(super) is_over: bool,
    /// Events up to this one are done.
    pub(super) done: u32,
    pub(super) events: VecDeque<(u32, Event)>,
    pub(super) stale: Vec<Stale>,
    pub(super) pending: Vec<Pending>,
    /// Who uses a live block beside its own stream.
    pub(super) uses: HashMap<Id, Users>,
    /// What live and pending blocks have borrowed.
    pub(super) loans: HashMap<Id, Vec<Loan>>,
    /// Who may use any of it: streams on which graphs of its private pool were launched.
    pub(super) gate: Users,
}

impl Heap {
    /// A heap without memory.
    pub(super) fn new(span: Span, rules: &Rules) -> Self {
        let mut blocks = Blocks::default();
        let mut holes = Bins::new();
        let all = blocks.add(span.base, span.bytes, State::Hole);
        holes.insert(&mut blocks, all);
        Heap {
            blocks,
            free: Bins::new(),
            holes,
            whole: Whole::new(rules),
            clock: Clock::default(),
            span,
            latest: NONE,
            is_short: false,
            next_event: 1,
            is_due: false,
            is_over: false,
            done: 0,
            events: VecDeque::new(),
            stale: Vec::new(),
            pending: Vec::new(),
            uses: HashMap::new(),
            loans: HashMap::new(),
            gate: Users::default(),
        }
    }

    /// Makes a free block live; `bytes` is a multiple of the unit. None too where a block would be cut and the request had better
    /// [fill a gap](Self::filling).
    #[inline]
    pub(super) fn take(&mut self, bytes: u64, requested: u64) -> Option<u64> {
        self.clock.tick();
        if self.latest != NONE && self.blocks[self.latest].bytes == bytes {
            let id = std::mem::replace(&mut self.latest, NONE);
            return Some(self.own(id, requested));
        }
        self.settle();
        if bytes >= self.whole.from
            && let Some(address) = self.take_whole(bytes, requested)
        {
            return Some(address);
        }
        let id = self.free.find(&self.blocks, bytes / UNIT)?;
        if self.is_short && self.blocks[id].bytes > bytes + PAGE && self.filling(bytes).is_some() {
            return None;
        }
        Some(self.cut(id, bytes, requested))
    }

    /// The same, whatever there is to fill. Nothing is unmerged.
    pub(super) fn take_free(&mut self, bytes: u64, requested: u64) -> Option<u64> {
        let id = self.free.find(&self.blocks, bytes / UNIT)?;
        Some(self.cut(id, bytes, requested))
    }

    /// Makes live a part of a free block, at its better end.
    fn cut(&mut self, id: Id, bytes: u64, requested: u64) -> u64 {
        let at = self.better_end(id, bytes);
        self.take_at(id, at, bytes, requested)
    }

    /// Where in a free block a request goes: at the end where it uses up most memory that could not move.
    fn better_end(&self, id: Id, bytes: u64) -> u64 {
        let (begin, end) = (self.blocks[id].address, self.blocks[id].end());
        if end - begin < PAGE || end - begin == bytes {
            return begin;
        }
        let left = self.span.trapped(begin + bytes, end);
        let right = self.span.trapped(begin, end - bytes);
        if right < left { end - bytes } else { begin }
    }

    /// Makes live the part of a free block that begins at `address`.
    pub(super) fn take_at(&mut self, id: Id, address: u64, bytes: u64, requested: u64) -> u64 {
        let id = self.change(id, address, address + bytes, State::Live);
        self.span.set_block(address, id);
        self.own(id, requested)
    }

    pub(super) fn own(&mut self, id: Id, requested: u64) -> u64 {
        let block = &mut self.blocks[id];
        block.state = State::Live;
        block.requested = requested;
        block.address
    }

    /// The block that begins at an address, if it is live.
    #[inline]
    pub(super) fn live(&self, address: u64) -> Option<Id> {
        let id = self.span.block(address);
        let is_it = id != NONE
            && self.blocks[id].address == address
            && self.blocks[id].state == State::Live;
        is_it.then_some(id)
    }

    /// All blocks, by address.
    pub(super) fn in_order(&self) -> impl Iterator<Item = &Block> {
        self.blocks.onward(FIRST).map(|id| &self.blocks[id])
    }

    /// Whether nothing lives in it, and nothing that was done in it goes on.
    pub(super) fn is_unused(&self) -> bool {
        let first = self.span.base;
        let nothing = self.stale.is_empty() && self.pending.is_empty();
        let idle = |id: Id| match self.blocks[id].state {
            State::Free | State::Whole => self.is_idle(id),
            State::Hole => true,
            State::Live | State::Pending | State::Moved | State::Tied => false,
        };
        nothing && self.blocks[FIRST].address == first && self.blocks.onward(FIRST).all(idle)
    }

    /// Whether all work that used a free block is done.
    pub(super) fn is_idle(&self, id: Id) -> bool {
        self.blocks[id].freed <= self.done && self.gate.are_none()
    }

    /// Takes a block back that nobody but its own stream uses.
    #[inline]
    pub(super) fn put(&mut self, id: Id) {
        self.settle();
        // The last event of a stream that is gone covers all of its work.
        let is_covered = self.is_over && !self.is_due;
        let number = self.next_event - u32::from(is_covered);
        self.is_due = !is_covered;
        if !self.loans.is_empty()
            && let Some(loans) = self.loans.remove(&id)
        {
            return self.return_loans(id, &loans, number);
        }
        let block = &mut self.blocks[id];
        block.state = State::Free;
        block.freed = number;
        block.since = self.clock.now();
        self.latest = id;
    }

    /// Merges the block that was freed last with its neighbours.
    #[inline]
    pub(super) fn settle(&mut self) {
        let id = std::mem::replace(&mut self.latest, NONE);
        if id != NONE {
            match self.blocks[id].bytes >= self.whole.from {
                true => self.keep_whole(id),
                false => self.join(id),
            }
        }
    }

    /// Merges a free block, or a hole, that is in no bin with its neighbours, and puts it into its bin.
    pub(super) fn join(&mut self, id: Id) {
        let state = self.blocks[id].state;
        let bins = if state == State::Hole { &mut self.holes } else { &mut self.free };
        let blocks = &mut self.blocks;
        // The latest is in no bin; it is merged by `settle`.
        let latest = self.latest;
        let joins = |blocks: &Blocks, id| blocks.neighbour(id, state).filter(|&id| id != latest);
        if let Some(next) = joins(blocks, blocks[id].next) {
            bins.remove(blocks, next);
            blocks.absorb_next(id);
        }
        let mut id = id;
        if let Some(prev) = joins(blocks, blocks[id].prev) {
            bins.remove(blocks, prev);
            blocks.absorb_next(prev);
            id = prev;
        }
        bins.insert(blocks, id);
    }

    /// Changes the state of a part of a block that is in a bin, or moved; the rest stays as it is.
    pub(super) fn change(&mut self, id: Id, begin: u64, end: u64, state: State) -> Id {
        if self.blocks[id].state == State::Whole {
            return self.break_whole(id, begin, end, state);
        }
        let blocks = &mut self.blocks;
        let mut bins = match blocks[id].state {
            State::Hole => Some(&mut self.holes),
            State::Free => Some(&mut self.free),
            State::Live | State::Pending | State::Moved | State::Tied | State::Whole => None,
        };
        if let Some(bins) = &mut bins {
            bins.remove(blocks, id);
        }
        let mut part = id;
        if blocks[id].address < begin {
            part = blocks.split(id, begin - blocks[id].address);
            if let Some(bins) = &mut bins {
                bins.insert(blocks, id);
            }
        }
        if blocks[part].end() > end {
            let rest = blocks.split(part, end - begin);
            if let Some(bins) = &mut bins {
                bins.insert(blocks, rest);
            }
        }
        blocks[part].state = state;
        if matches!(state, State::Free | State::Hole) {
            self.join(part);
        }
        part
    }

    /// The free block that holds a range.
    pub(super) fn free_around(&self, begin: u64, end: u64) -> Option<Id> {
        let blocks = &self.blocks;
        let holds = |&id: &Id| blocks[id].address <= begin && end <= blocks[id].end();
        let whole = self.whole.at_least(end - begin);
        self.free.at_least(blocks, (end - begin) / UNIT).chain(whole).find(holds)
    }

    /// The hole that holds a range.
    pub(super) fn hole_around(&self, begin: u64, end: u64) -> Option<Id> {
        let blocks = &self.blocks;
        let holds = |&id: &Id| blocks[id].address <= begin && end <= blocks[id].end();
        self.holes.at_least(blocks, (end - begin) / UNIT).find(holds)
    }
}
