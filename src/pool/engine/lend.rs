//! Which ends of a block come to lie on pages that exist: parts of them are free and can't move.
//!
//! A handle moves as a whole, so what is free of one on which something lives is of no use elsewhere, but for one thing: a handle
//! may be mapped at two addresses. Where a new block lacks a handle for its tail alone, one is mapped there whose *front* is free;
//! for its head, one whose *rear* is. Behind that tail, and before that head, lie addresses that show another's memory: nobody
//! gets them as long as the block lives.

use super::heap::Heap;
use super::place::Place;
use super::span::{Mapping, PAGE};

/// Slivers that a search looks at, the longest: it compares each with each.
const MOST: usize = 256;

/// An end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Head,
    Tail,
}

/// Memory that serves for an end of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) end: End,
    /// Where it lies,
    pub(super) lender: Mapping,
    /// which part of that is lent,
    pub(super) lent: (u64, u64),
    /// and the addresses where the lender is mapped as well.
    pub(super) alias: (u64, u64),
}

impl Offer {
    /// The addresses of the end: as many as are lent, at the near end of the alias.
    pub(super) fn part(&self) -> (u64, u64) {
        let bytes = self.lent.1 - self.lent.0;
        match self.end {
            End::Head => (self.alias.1 - bytes, self.alias.1),
            End::Tail => (self.alias.0, self.alias.0 + bytes),
        }
    }
}

/// What a free block has of a handle that reaches out of it.
#[derive(Debug, Clone, Copy)]
struct Sliver {
    of: Mapping,
    begin: u64,
    end: u64,
}

impl Sliver {
    /// The end of a block that it can serve for: it is the front of its handle, or the rear.
    fn serves(&self) -> Option<End> {
        match (self.begin == self.of.address, self.end == self.of.end()) {
            (true, _) => Some(End::Tail),
            (_, true) => Some(End::Head),
            _ => None,
        }
    }

    /// The most of it that leaves whole pages of a block of which `bytes` are to be had.
    fn lends(&self, bytes: u64, odd: u64) -> Option<u64> {
        let most = bytes.min(self.end - self.begin).checked_sub(odd)?;
        Some(odd + most / PAGE * PAGE).filter(|&bytes| bytes > 0)
    }
}

impl Heap {
    /// A place of which the ends borrow what they lack, as far as there is something that fits. It lacks less then.
    pub(super) fn with_offers(&self, place: Place) -> Place {
        let mut slivers: Vec<Sliver> = self.slivers().collect();
        slivers.sort_by_key(|sliver| std::cmp::Reverse(sliver.end - sliver.begin));
        slivers.truncate(MOST);
        let mut place = self.shifted(&slivers, &place).unwrap_or(place);
        if let Some(offer) = self.tail(&slivers, &place) {
            place.accept(offer);
        }
        if let Some(offer) = self.head(&slivers, &place) {
            place.accept(offer);
        }
        place
    }

    /// What does not move with its free block.
    fn slivers(&self) -> impl Iterator<Item = Sliver> + '_ {
        self.free.at_least(&self.blocks, 1).flat_map(|id| {
            let (begin, end) = (self.blocks[id].address, self.blocks[id].end());
            let reaches_out = move |of: &Mapping| of.address < begin || of.end() > end;
            let first = self.span.mapping(begin).filter(reaches_out);
            let last =
                self.span.mapping(end - 1).filter(reaches_out).filter(|&of| Some(of) != first);
            let part = move |of: Mapping| Sliver {
                of,
                begin: of.address.max(begin),
                end: of.end().min(end),
            };
            [first, last].into_iter().flatten().map(part)
        })
    }

    /// What serves for the tail of a place: it saves the most pages, then it is the shortest.
    fn tail(&self, slivers: &[Sliver], place: &Place) -> Option<Offer> {
        let run = place.lacks.last().filter(|run| run.1 >= place.end)?;
        let bytes = place.end.checked_sub(run.0.max(place.begin.next_multiple_of(PAGE)))?;
        let offer = |&Sliver { of, begin, .. }: &Sliver, bytes: u64| {
            let at = place.end - bytes;
            let (lent, alias) = ((begin, begin + bytes), (at, at + of.bytes));
            Offer { end: End::Tail, lender: of, lent, alias }
        };
        self.best(slivers, place, End::Tail, (bytes, place.end % PAGE), offer)
    }

    /// The same for its head.
    fn head(&self, slivers: &[Sliver], place: &Place) -> Option<Offer> {
        let run = place.lacks.first().filter(|run| run.0 <= place.begin)?;
        let bytes = run.1.min(place.end / PAGE * PAGE).checked_sub(place.begin)?;
        let odd = place.begin.next_multiple_of(PAGE) - place.begin;
        let offer = |&Sliver { of, end, .. }: &Sliver, bytes: u64| {
            let until = place.begin + bytes;
            let (lent, alias) = ((end - bytes, end), (until - of.bytes, until));
            Offer { end: End::Head, lender: of, lent, alias }
        };
        self.best(slivers, place, End::Head, (bytes, odd), offer)
    }

    /// Of the slivers that serve, the one that lends most of the `most` bytes that are wanted, of which `odd` are no whole page; then the
    /// shortest.
    fn best(
        &self,
        slivers: &[Sliver],
        place: &Place,
        end: End,
        (most, odd): (u64, u64),
        offer: impl Fn(&Sliver, u64) -> Offer,
    ) -> Option<Offer> {
        let here = (place.begin / PAGE * PAGE, place.end.next_multiple_of(PAGE));
        let serves = |sliver: &&Sliver| {
            sliver.serves() == Some(end) && (sliver.end <= here.0 || sliver.begin >= here.1)
        };
        let lends = |sliver: &Sliver| {
            let bytes = sliver.lends(most, odd)?;
            let Offer { alias, .. } = offer(sliver, bytes);
            self.hole_around(alias.0, alias.1)?;
            Some((std::cmp::Reverse(bytes), sliver.end - sliver.begin, offer(sliver, bytes)))
        };
        let offers = slivers.iter().filter(serves).filter_map(lends);
        offers.min_by_key(|&(bytes, length, _)| (bytes, length)).map(|(_, _, offer)| offer)
    }

    /// A place at the end of the heap that begins with a page of its own begins with a rear instead, if fewer pages are missing
    /// then: there are addresses enough. It is the rear that, with a front for the tail, leaves the fewest pages and then the least
    /// of the two.
    fn shifted(&self, slivers: &[Sliver], place: &Place) -> Option<Place> {
        let &[run] = place.lacks.as_slice() else { return None };
        self.hole_around(place.begin, self.span.base + self.span.bytes)
            .filter(|_| run.0 == place.begin)?;
        let fronts = || slivers.iter().filter(|sliver| sliver.serves() == Some(End::Tail));
        let rears = slivers.iter().filter(|sliver| sliver.serves() == Some(End::Head));
        // Pages and what is left over, for the last `bytes` of the block.
        let costs = |bytes: u64| {
            let odd = bytes % PAGE;
            let cost = |front: &Sliver| {
                let lent = front.lends(bytes, odd)?;
                Some(((bytes - lent) / PAGE, front.end - front.begin - lent))
            };
            fronts().filter_map(cost).min().unwrap_or((bytes.div_ceil(PAGE), PAGE - odd))
        };
        let size = place.end - place.begin;
        let cost = |rear: &Sliver| {
            let lent = rear.end - rear.begin;
            Some((costs(size.checked_sub(lent)?), place.begin + rear.of.bytes - lent))
        };
        let (with, begin) = rears.filter_map(cost).min()?;
        let end = begin + size;
        let run = (begin / PAGE * PAGE, end.next_multiple_of(PAGE));
        let shifted =
            Place { begin, end, lacks: vec![run], lacking: run.1 - run.0, offers: vec![] };
        (with.0 < costs(size).0).then_some(shifted)
    }
}

impl Place {
    /// An end of the place lacks nothing any more.
    fn accept(&mut self, offer: Offer) {
        let run = match offer.end {
            End::Head => self.lacks.first_mut(),
            End::Tail => self.lacks.last_mut(),
        };
        let Some(run) = run else { return };
        let before = run.1 - run.0;
        match offer.end {
            End::Head => run.0 = offer.alias.1,
            End::Tail => run.1 = offer.alias.0,
        }
        self.lacking -= before - (run.1 - run.0);
        self.lacks.retain(|run| run.0 < run.1);
        self.offers.push(offer);
    }
}
