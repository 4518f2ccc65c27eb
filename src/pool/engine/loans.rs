//! Memory that is lent to a block elsewhere, from its mapping there to its return.

use super::blocks::{Id, State};
use super::device::Engine;
use super::heap::{Heap, Stale};
use super::lend::{End, Offer};
use super::place::Place;
use super::span::Mapping;
use crate::cuda::{Card, CuResult};

/// Memory that a live block has borrowed for one of its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loan {
    end: End,
    /// What is lent, where it lies.
    lent: Id,
    /// Where the lender is mapped as well.
    alias: (u64, u64),
}

impl Heap {
    /// Where what a live block has borrowed is mapped as well.
    pub(super) fn aliases(&self, id: Id) -> impl Iterator<Item = Mapping> + '_ {
        self.loans.get(&id).into_iter().flatten().filter_map(|loan| {
            let lender = self.span.mapping(self.blocks[loan.lent].address)?;
            let (address, end) = loan.alias;
            Some(Mapping { address, bytes: end - address, handle: lender.handle })
        })
    }

    /// Whether all is as it was when the place was found, and what it lacked is there.
    pub(super) fn can_borrow(&self, place: &Place) -> bool {
        let (begin, end) = place.own();
        let holds = |offer: &Offer| {
            self.free_around(offer.lent.0, offer.lent.1).is_some()
                && self.hole_around(offer.alias.0, offer.alias.1).is_some()
        };
        (begin == end || self.free_around(begin, end).is_some()) && place.offers.iter().all(holds)
    }

    /// Makes live a place whose offers are mapped.
    pub(super) fn take_borrowing(&mut self, place: &Place, requested: u64) -> Option<u64> {
        let (begin, end) = place.own();
        let mut parts = Vec::with_capacity(3);
        if begin < end {
            let id = self.free_around(begin, end)?;
            parts.push(self.change(id, begin, end, State::Tied));
        }
        let mut loans = Vec::with_capacity(place.offers.len());
        for &Offer { end, lent, alias, .. } in &place.offers {
            let free = self.free_around(lent.0, lent.1)?;
            let lent = self.change(free, lent.0, lent.1, State::Tied);
            loans.push(Loan { end, lent, alias });
        }
        for offer in &place.offers {
            let hole = self.hole_around(offer.alias.0, offer.alias.1)?;
            let all = self.change(hole, offer.alias.0, offer.alias.1, State::Tied);
            parts.push(self.change(all, offer.part().0, offer.part().1, State::Tied));
        }
        // None of the records that go may say that it is live: it would be found by its address.
        let first = parts.iter().copied().min_by_key(|&id| self.blocks[id].address)?;
        parts.iter().skip(1).for_each(|_| self.blocks.absorb_next(first));
        self.span.set_block(place.begin, first);
        self.loans.insert(first, loans);
        Some(self.own(first, requested))
    }

    /// Frees a block that has borrowed, after the event of a number. What was lent is free where it lies, and the addresses where it
    /// was lent to go from the driver's map when the event is done.
    #[cold]
    pub(super) fn return_loans(&mut self, id: Id, loans: &[Loan], number: u32) {
        let mut own = Some(id);
        for &Loan { end, lent, alias } in loans {
            let Some(block) = own else { break };
            let begin = self.blocks[block].address;
            let is_all = match end {
                End::Head => self.blocks[block].end() == alias.1,
                End::Tail => begin == alias.0,
            };
            let cut = if end == End::Head { alias.1 } else { alias.0 };
            let behind = (!is_all).then(|| self.blocks.split(block, cut - begin));
            let (part, rest) = match (end, behind) {
                (_, None) => (block, None),
                (End::Head, behind) => (block, behind),
                (End::Tail, Some(behind)) => (behind, Some(block)),
            };
            own = rest;
            self.leave(part, end, alias, number);
            self.free_after(lent, number);
        }
        if let Some(own) = own {
            self.free_after(own, number);
        }
    }

    /// The addresses of an alias are not used any more after the event of a number.
    fn leave(&mut self, part: Id, end: End, alias: (u64, u64), number: u32) {
        let mut id = part;
        // Also of the record that goes: one that says it is live would be found by its address.
        self.blocks[part].state = State::Moved;
        if self.blocks[part].bytes < alias.1 - alias.0 {
            if end == End::Head {
                id = self.blocks[part].prev;
            }
            self.blocks.absorb_next(id);
        }
        self.blocks[id].state = State::Moved;
        self.stale.push(Stale { number, id });
    }

    /// Nobody uses it any more after the event of a number.
    fn free_after(&mut self, id: Id, number: u32) {
        self.blocks[id].state = State::Free;
        self.blocks[id].freed = number;
        self.blocks[id].since = self.clock.now();
        self.join(id);
    }
}

impl<C: Card> Engine<C> {
    /// Maps what a place borrows.
    ///
    /// # Errors
    /// What the driver says; then nothing of it is mapped.
    pub(super) fn map_offers(&self, offers: &[Offer]) -> Result<(), CuResult> {
        for (number, Offer { lender, alias, .. }) in offers.iter().enumerate() {
            let mapped = self.card.map(alias.0, lender.bytes, lender.handle).and_then(|()| {
                let enabled = self.card.enable(alias.0, lender.bytes);
                enabled.inspect_err(|_| _ = self.card.unmap(alias.0, lender.bytes))
            });
            if let Err(code) = mapped {
                let before = &offers[..number];
                before
                    .iter()
                    .for_each(|offer| _ = self.card.unmap(offer.alias.0, offer.lender.bytes));
                return Err(code);
            }
        }
        Ok(())
    }
}

impl Place {
    /// What of it is not borrowed.
    fn own(&self) -> (u64, u64) {
        let (mut begin, mut end) = (self.begin, self.end);
        for offer in &self.offers {
            match offer.end {
                End::Head => begin = offer.alias.1,
                End::Tail => end = offer.alias.0,
            }
        }
        (begin, end)
    }
}
