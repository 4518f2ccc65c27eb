//! `garbage_collection_threshold`: before memory is created, what nobody used for long goes back to the driver.
//!
//! When more would be held than that share of the limit, or of the device where there is no lower limit, whole idle handles go
//! back, those that were free longest first, until it is no more. What is in use, or has work in flight, stays; a request is not
//! refused for the threshold. Only a request that no free block holds comes here.
//!
//! # Age
//! It is counted in searches, as PyTorch counts it: a job that pauses does not age, and there is no clock to read. A free block has
//! the number of searches of its heap when it was freed. So that heaps can be compared, and what lies in an idle one ages too, their
//! counts are made one at each miss: nothing is shared in between.

use std::cmp::Reverse;

use super::device::Engine;
use super::heap::Heap;
use super::place::Place;
use super::span::PAGE;
use super::streams::Home;
use super::supply::{Pages, Victim, collect};
use crate::cuda::Card;

/// Beyond what is live a fiftieth of it stays in any case: a job that lives above the threshold would give back and create the same
/// memory at each miss.
const KEPT: u64 = 50;

/// A heap's count of searches.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: u64,
    /// Up to here all heaps know of it.
    told: u64,
}

impl Clock {
    /// A search begins.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    /// Searches so far.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Searches since this was asked last.
    fn tell(&mut self) -> u64 {
        let news = self.now - self.told;
        self.told = self.now;
        news
    }

    /// All heaps together have so many searches behind them.
    fn set(&mut self, all: u64) {
        let since = self.now - self.told;
        self.told = all;
        self.now = all + since;
    }
}

impl<C: Card> Engine<C> {
    /// Gives back what was free longest, before memory is created for a place. What lies at the place stays.
    pub(super) fn collect_garbage(
        &self,
        pages: &mut Pages,
        home: &Home,
        own: &mut Heap,
        place: &Place,
    ) {
        let Some(share) = self.rules.collect_above else { return };
        self.synchronise_clocks(home, own);
        let threshold = (self.limit().min(self.settings.total) as f64 * share) as u64;
        let (live, _) = self.lanes.live();
        let most = threshold.max(live + live / KEPT);
        // What else is lacking moves there.
        let creates = place.lacking.min(self.may_create(pages, place.end - place.begin));
        let is_over = |pages: &Pages| pages.stats.reserved_bytes.current + creates > most;
        if creates == 0 || !is_over(pages) {
            return;
        }
        self.release_spare(pages);
        for victim in self.longest_idle(home, own, place) {
            if !is_over(pages) {
                break;
            }
            if self.pick_up(home, own, &victim) {
                self.release(pages, victim.mapping.handle, victim.mapping.bytes);
                pages.stats.collected_bytes += victim.mapping.bytes;
            }
        }
    }

    /// All memory that may go back to the driver, what was free longest first.
    fn longest_idle<'a>(
        &'a self,
        home: &'a Home,
        own: &mut Heap,
        place: &Place,
    ) -> Vec<Victim<'a>> {
        let mut victims = Vec::new();
        let here = (place.begin / PAGE * PAGE, place.end.next_multiple_of(PAGE));
        collect(home, own, here, false, &mut victims);
        for other in self.others(home) {
            let mut heap = other.lock();
            heap.settle();
            self.poll(other, &mut heap);
            collect(other, &mut heap, (0, 0), false, &mut victims);
        }
        // Of the same age, from the end: what is left stays in one piece.
        victims.sort_by_key(|victim| (victim.since, Reverse(victim.mapping.address)));
        victims
    }

    /// Makes the clocks of all heaps one.
    fn synchronise_clocks(&self, home: &Home, own: &mut Heap) {
        let (mut known, mut news) = (own.clock.told, own.clock.tell());
        for other in self.others(home) {
            let clock = &mut other.lock().clock;
            known = known.max(clock.told);
            news += clock.tell();
        }
        own.clock.set(known + news);
        self.others(home).for_each(|other| other.lock().clock.set(known + news));
    }

    /// All heaps but one.
    pub(super) fn others<'a>(&'a self, home: &'a Home) -> impl Iterator<Item = &'a Home> {
        self.streams.all().filter(move |other| !std::ptr::eq(*other, home))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_that_are_made_one_miss_nothing() {
        let (mut busy, mut idle) = (Clock::default(), Clock::default());
        (0..5).for_each(|_| busy.tick());
        idle.tick();
        let all = busy.tell() + idle.tell();
        // A search in between counts the next time.
        busy.tick();
        busy.set(all);
        idle.set(all);
        assert_eq!((busy.now(), idle.now()), (7, 6));
        assert_eq!((busy.tell(), idle.tell()), (1, 0));
    }
}
