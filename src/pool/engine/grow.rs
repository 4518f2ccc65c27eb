//! What happens when no free block holds a request.

use super::device::Engine;
use super::heap::Heap;
use super::place::Place;
use super::span::PAGE;
use super::streams::{Home, is_small};
use super::supply::{Pages, Plan};
use crate::cuda::{Card, DevicePtr, Failure};

/// How often a plan is made anew because another thread took a part of it.
const ATTEMPTS: usize = 8;

/// How far an attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    /// Creates what the promise allows, and moves the rest.
    Within,
    /// Moves all that is free before it creates anything.
    MoveAll,
    /// Waits for the work in flight, then does the same, and gives back as much as it creates.
    Wait,
}

impl<C: Card> Engine<C> {
    /// Brings memory to a place for the request. As long as little more is held than was ever live, memory is created; beyond
    /// that, free pages move first. A refusal comes last: when all that is free, once the work in flight was waited for, and what
    /// may still be taken from the driver are less than the request lacks.
    #[cold]
    pub(super) fn grow(
        &self,
        home: &Home,
        bytes: u64,
        requested: u64,
    ) -> Result<DevicePtr, Failure> {
        let mut pages = self.pages();
        pages.stats.misses += 1;
        let mut heap = home.lock();
        heap.is_short = self.is_short(&pages);
        if let Some(address) = self.fill(&mut pages, home, &mut heap, (bytes, requested)) {
            return Ok(address);
        }
        let mut answer = Err(Failure::OutOfMemory);
        for rung in [Rung::Within, Rung::MoveAll, Rung::Wait] {
            pages.stats.alloc_retries += u64::from(rung == Rung::MoveAll);
            if rung == Rung::Wait {
                self.wait_for(home, &mut heap);
                self.others(home).for_each(|other| self.wait_for(other, &mut other.lock()));
                self.release_spare(&mut pages);
            }
            self.poll(home, &mut heap);
            heap.settle();
            if rung != Rung::Within {
                heap.loosen_all();
                self.others(home).for_each(|other| _ = other.lock().loosen_all());
            }
            if let Some(address) = heap.take_free(bytes, requested) {
                return Ok(address);
            }
            answer = self.bring(&mut pages, home, &mut heap, (bytes, requested), rung);
            match answer {
                Err(Failure::OutOfMemory) => {}
                answer => return answer,
            }
        }
        pages.stats.ooms += 1;
        answer
    }

    /// Puts the request into a [gap that it fills](Heap::filling). Only where memory is short: it has a price, and a free block may well
    /// hold the request. For the same reason a failure does no harm: what was brought by then is free memory.
    fn fill(
        &self,
        pages: &mut Pages,
        home: &Home,
        heap: &mut Heap,
        (bytes, requested): (u64, u64),
    ) -> Option<DevicePtr> {
        heap.settle();
        let place = heap.filling(bytes).filter(|_| heap.is_short)?;
        let plan = self.plan(pages, home, heap, &place, Rung::Within).ok()?;
        if !self.carry_out(pages, home, heap, &place, plan).ok()? {
            return None;
        }
        let id = heap.free_around(place.begin, place.end)?;
        Some(heap.take_at(id, place.begin, bytes, requested))
    }

    /// One attempt.
    fn bring(
        &self,
        pages: &mut Pages,
        home: &Home,
        heap: &mut Heap,
        (bytes, requested): (u64, u64),
        rung: Rung,
    ) -> Result<DevicePtr, Failure> {
        for _ in 0..ATTEMPTS {
            // What the attempt before found done may have been freed last.
            heap.settle();
            let mut place = heap.place(bytes).ok_or(Failure::OutOfMemory)?;
            if place.lacking > self.may_create(pages, bytes) && heap.loosen(bytes) {
                if let Some(address) = heap.take_free(bytes, requested) {
                    return Ok(address);
                }
                place = heap.place(bytes).ok_or(Failure::OutOfMemory)?;
            }
            if self.may_borrow(pages, home, &place, rung) {
                place = heap.with_offers(place);
            }
            self.collect_garbage(pages, home, heap, &place);
            let plan = self.plan(pages, home, heap, &place, rung)?;
            if !self.carry_out(pages, home, heap, &place, plan)? || !heap.can_borrow(&place) {
                continue;
            }
            if place.offers.is_empty() {
                let id = heap.free_around(place.begin, place.end).ok_or(Failure::OutOfMemory)?;
                return Ok(heap.take_at(id, place.begin, bytes, requested));
            }
            self.map_offers(&place.offers)?;
            return heap.take_borrowing(&place, requested).ok_or(Failure::OutOfMemory);
        }
        Err(Failure::OutOfMemory)
    }

    /// Whether the ends of a block may lie on pages that serve others too. It costs as much as a page, and the block is never found
    /// again as a whole: so only where memory is short. Graphs of a private pool remember addresses, which must not end with a block.
    fn may_borrow(&self, pages: &Pages, home: &Home, place: &Place, rung: Rung) -> bool {
        let bytes = place.end - place.begin;
        let is_short = rung != Rung::Within || self.is_short(pages);
        is_short && home.pool() == 0 && !is_small(bytes)
    }

    /// What fills a place: memory that moves, as far as it is wanted and fits; new memory for the rest; and for that, if the promise
    /// or the limit leave no room, idle memory that goes back to the driver.
    ///
    /// # Errors
    /// If all of that is not enough.
    fn plan<'a>(
        &'a self,
        pages: &Pages,
        home: &'a Home,
        heap: &mut Heap,
        place: &Place,
        rung: Rung,
    ) -> Result<Plan<'a>, Failure> {
        let mut plan = Plan { creates: place.lacks.clone(), ..Plan::default() };
        let held = pages.stats.reserved_bytes.current;
        let may = self.may_create(pages, place.end - place.begin);
        let all = rung != Rung::Within;
        if place.lacking <= may && !all {
            return Ok(plan);
        }
        let mut wanted = if all { place.lacking } else { place.lacking - may };
        let mut rest = Vec::new();
        for victim in self.victims(home, heap, place) {
            let bytes = victim.mapping.bytes;
            let run = plan.creates.iter_mut().find(|(begin, end)| end - begin >= bytes);
            match run.filter(|_| wanted > 0) {
                Some(run) => {
                    plan.moves.push((victim, run.0));
                    run.0 += bytes;
                    wanted = wanted.saturating_sub(bytes);
                }
                None => rest.push(victim),
            }
        }
        let lacking: u64 = plan.creates.iter().map(|(begin, end)| end - begin).sum();
        let most = if all { self.limit() } else { self.limit().min(held + may) };
        let mut over = (held + lacking).saturating_sub(most);
        if rung == Rung::Wait {
            // The card may be full below the limit, since others use it too: only what goes back is sure to be there.
            over = over.max(lacking);
        }
        for victim in rest.into_iter().filter(|victim| victim.is_idle) {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(victim.mapping.bytes);
            plan.gives.push(victim);
        }
        let given: u64 = plan.gives.iter().map(|victim| victim.mapping.bytes).sum();
        // Within the promise it is better to hold a little more than to wait.
        if held + lacking > self.limit().saturating_add(given) {
            Err(Failure::OutOfMemory)
        } else {
            Ok(plan)
        }
    }

    /// Bytes that may be created for a request: within the slack over the peak of live bytes, and the limit.
    pub(super) fn may_create(&self, pages: &Pages, bytes: u64) -> u64 {
        let held = pages.stats.reserved_bytes.current;
        let (live, peak) = self.lanes.live();
        let most = peak.max(live + bytes);
        let promise = most + (most as f64 * (self.settings.slack + pages.guard.width())) as u64;
        promise.min(self.limit()).saturating_sub(held) / PAGE * PAGE
    }
}
