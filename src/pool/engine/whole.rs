//! Blocks that are not split: `max_split_size_mb`.
//!
//! A block of that size and more stays *whole* when it is freed: it is not merged with its neighbours, and serves only requests of
//! that size and more that are less than `max_non_split_rounding_mb` smaller. So a large block is there when it is asked for again,
//! and small ones don't nibble at it.
//!
//! Elsewhere such a rule keeps memory idle that others need, up to many times what is live. Here it is about addresses alone. What a
//! smaller request leaves of a whole block is a free *rest* behind it, and joins it again when it is freed. And the pages of whole
//! blocks and of rests move to where a request lacks some, as those of any free block; what is left then is an ordinary free block.
//! Where memory would be held beyond the promise, or a request refused, the blocks themselves are split like any other: that costs
//! nothing, and moving their pages would leave them no more whole.

use std::collections::BTreeSet;

use super::blocks::{Id, State, UNIT};
use super::heap::Heap;
use super::rules::Rules;

/// A heap's free blocks that are whole, and the rests of those in use.
#[derive(Debug)]
pub(super) struct Whole {
    /// Blocks of so many bytes and more are not split.
    pub(super) from: u64,
    /// A request gets one that is by less than this larger.
    within: u64,
    /// Bytes, address and number of each.
    free: BTreeSet<(u64, u64, Id)>,
}

impl Whole {
    pub(super) fn new(rules: &Rules) -> Self {
        let from = rules.max_split_size.unwrap_or(u64::MAX).max(UNIT);
        Whole { from, within: rules.max_non_split_rounding.max(1), free: BTreeSet::new() }
    }

    /// All of at least so many bytes.
    pub(super) fn at_least(&self, bytes: u64) -> impl Iterator<Item = Id> + '_ {
        self.free.range((bytes, 0, 0)..).map(|&(_, _, id)| id)
    }

    /// The smallest that a request may have.
    fn find(&self, bytes: u64) -> Option<Id> {
        let most = bytes.saturating_add(self.within);
        self.free.range((bytes, 0, 0)..(most, 0, 0)).next().map(|&(_, _, id)| id)
    }
}

impl Heap {
    /// Makes a whole block live, for a request of a size that is not split.
    pub(super) fn take_whole(&mut self, bytes: u64, requested: u64) -> Option<u64> {
        let id = self.whole.find(bytes)?;
        self.leave_whole(id);
        if self.blocks[id].bytes > bytes {
            let rest = self.blocks.split(id, bytes);
            self.enter_whole(rest);
        }
        self.blocks[id].state = State::Live;
        self.blocks[id].requested = requested;
        let address = self.blocks[id].address;
        self.span.set_block(address, id);
        Some(address)
    }

    /// A freed block of a size that is not split stays as it is; with the rest of the block that it was a part of.
    pub(super) fn keep_whole(&mut self, id: Id) {
        let next = self.blocks.neighbour(self.blocks[id].next, State::Whole);
        if let Some(rest) = next.filter(|&next| self.blocks[next].bytes < self.whole.from) {
            self.leave_whole(rest);
            self.blocks.absorb_next(id);
        }
        self.enter_whole(id);
    }

    /// Takes a part of a whole block for something else; what is left on either side is split like any other.
    pub(super) fn break_whole(&mut self, id: Id, begin: u64, end: u64, state: State) -> Id {
        self.leave_whole(id);
        let (mut part, mut left) = (id, Vec::new());
        if self.blocks[id].address < begin {
            part = self.blocks.split(id, begin - self.blocks[id].address);
            left.push(id);
        }
        if self.blocks[part].end() > end {
            left.push(self.blocks.split(part, end - begin));
        }
        self.blocks[part].state = state;
        for id in left {
            self.blocks[id].state = State::Free;
            self.join(id);
        }
        part
    }

    /// Lets whole blocks be split and merged like any other: the smallest that holds a request, or all if none does. False if there
    /// are none.
    pub(super) fn loosen(&mut self, bytes: u64) -> bool {
        let Some(id) = self.whole.at_least(bytes).next() else { return self.loosen_all() };
        self.loosen_one(id);
        true
    }

    /// The same for all of them: a page that lies half in one and half in a free block beside it can't move before. False if there
    /// are none.
    pub(super) fn loosen_all(&mut self) -> bool {
        let ids: Vec<_> = self.whole.at_least(0).collect();
        ids.iter().for_each(|&id| self.loosen_one(id));
        !ids.is_empty()
    }

    fn loosen_one(&mut self, id: Id) {
        self.leave_whole(id);
        self.blocks[id].state = State::Free;
        self.join(id);
    }

    fn enter_whole(&mut self, id: Id) {
        let block = &mut self.blocks[id];
        block.state = State::Whole;
        self.whole.free.insert((block.bytes, block.address, id));
    }

    fn leave_whole(&mut self, id: Id) {
        let block = &self.blocks[id];
        self.whole.free.remove(&(block.bytes, block.address, id));
    }
}
