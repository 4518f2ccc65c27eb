//! The records of a heap's blocks, in one slab with links by index: neighbours by address, neighbours in a bin.

use std::ops::{Index, IndexMut};

/// Place in the slab.
pub(super) type Id = u32;
/// No block.
pub(super) const NONE: Id = Id::MAX;

/// Unit of sizes and addresses: what the driver aligns to, and textures need.
pub(super) const UNIT: u64 = 512;

/// What may be done with the addresses of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// In the program's hands.
    Live,
    /// Freed, while streams that it was recorded on still work.
    Pending,
    /// Mapped and in nobody's hands: in a bin, or the heap's latest.
    Free,
    /// The same, in one piece: not to be merged or split. See [`whole`](super::whole).
    Whole,
    /// Not mapped. A multiple of 2 MiB at a multiple of 2 MiB, as is [`Moved`](State::Moved).
    Hole,
    /// Its memory is at another address by now, and work may still use this one.
    Moved,
    /// Lent to a block elsewhere, or the rest of the addresses where it is lent to: nobody's as long as that block lives.
    Tied,
}

#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// What the program asked for; of a live or pending block.
    pub(super) requested: u64,
    /// Neighbours by address.
    pub(super) prev: Id,
    pub(super) next: Id,
    pub(super) bin_prev: Id,
    pub(super) bin_next: Id,
    /// Number of the heap's next event when it was freed: once that is done, nobody uses the memory.
    pub(super) freed: u32,
    /// Searches of the heap before it was freed.
    pub(super) since: u64,
    pub(super) state: State,
}

impl Block {
    pub(super) fn units(&self) -> u64 {
        self.bytes / UNIT
    }

    pub(super) fn end(&self) -> u64 {
        self.address + self.bytes
    }
}

/// All blocks of a heap.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<Block>,
    spare: Vec<Id>,
}

impl Index<Id> for Blocks {
    type Output = Block;
    fn index(&self, id: Id) -> &Block {
        &self.list[id as usize]
    }
}

impl IndexMut<Id> for Blocks {
    fn index_mut(&mut self, id: Id) -> &mut Block {
        &mut self.list[id as usize]
    }
}

impl Blocks {
    /// A block without neighbours.
    pub(super) fn add(&mut self, address: u64, bytes: u64, state: State) -> Id {
        let block = Block {
            address,
            bytes,
            requested: 0,
            prev: NONE,
            next: NONE,
            bin_prev: NONE,
            bin_next: NONE,
            freed: 0,
            since: 0,
            state,
        };
        if let Some(id) = self.spare.pop() {
            self[id] = block;
            return id;
        }
        self.list.push(block);
        (self.list.len() - 1) as Id
    }

    /// Cuts a block in two; it keeps the first `bytes`. The rest has the same state, and is in no bin.
    pub(super) fn split(&mut self, id: Id, bytes: u64) -> Id {
        let Block { address, bytes: all, next, freed, since, state, .. } = self[id];
        let rest = self.add(address + bytes, all - bytes, state);
        self[rest].freed = freed;
        self[rest].since = since;
        self[rest].prev = id;
        self[rest].next = next;
        if next != NONE {
            self[next].prev = rest;
        }
        self[id].next = rest;
        self[id].bytes = bytes;
        rest
    }

    /// Adds the next neighbour to a block. Neither is in a bin.
    pub(super) fn absorb_next(&mut self, id: Id) {
        let gone = self[id].next;
        let Block { bytes, next, freed, since, .. } = self[gone];
        self[id].bytes += bytes;
        self[id].freed = self[id].freed.max(freed);
        self[id].since = self[id].since.max(since);
        self[id].next = next;
        if next != NONE {
            self[next].prev = id;
        }
        self.spare.push(gone);
    }

    /// A neighbour, if there is one and it is in that state.
    pub(super) fn neighbour(&self, id: Id, state: State) -> Option<Id> {
        (id != NONE && self[id].state == state).then_some(id)
    }

    /// The blocks from one on, by address.
    pub(super) fn onward(&self, id: Id) -> impl Iterator<Item = Id> + '_ {
        let some = |id| (id != NONE).then_some(id);
        std::iter::successors(some(id), move |&id| some(self[id].next))
    }
}
