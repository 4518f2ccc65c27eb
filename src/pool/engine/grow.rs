//! What happens when no free block holds a request.

use super::device::Engine;
use super::heap::Heap;
use super::place::Place;
use super::span::PAGE;
use super::streams::Home;
use super::supply::{Pages, Victim};
use crate::cuda::{Card, DevicePtr, Failure};

/// How far an attempt goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    /// Creates what the promise allows, and moves the rest.
    Within,
    /// Moves all that is free before it creates anything.
    MoveAll,
    /// Waits for the work in flight, then does the same.
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
        let mut answer = Err(Failure::OutOfMemory);
        for rung in [Rung::Within, Rung::MoveAll, Rung::Wait] {
            pages.stats.alloc_retries += u64::from(rung == Rung::MoveAll);
            if rung == Rung::Wait {
                self.wait_for(home, &mut heap);
                let others = self.streams.all().filter(|other| !std::ptr::eq(*other, home));
                others.for_each(|other| self.wait_for(other, &mut other.lock()));
                self.release_spare(&mut pages);
            }
            self.poll(home, &mut heap);
            heap.settle();
            if let Some(address) = heap.take(bytes, requested) {
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

    /// One attempt.
    fn bring(
        &self,
        pages: &mut Pages,
        home: &Home,
        heap: &mut Heap,
        (bytes, requested): (u64, u64),
        rung: Rung,
    ) -> Result<DevicePtr, Failure> {
        let place = heap.place(bytes).ok_or(Failure::OutOfMemory)?;
        let held = pages.stats.reserved_bytes.current;
        let spare: u64 = pages.spare.iter().map(|&(_, bytes)| bytes).sum();
        let may = if rung == Rung::Within { self.may_create(held, bytes) } else { 0 };
        let mut wanted = place.lacking.saturating_sub(may + spare);
        let mut victims: Vec<Victim<'_>> = Vec::new();
        if wanted > 0 {
            victims = self.victims(home, heap, &place);
            let available: u64 = victims.iter().map(|victim| victim.bytes).sum();
            let creatable = self.limit().saturating_sub(held) / PAGE * PAGE;
            if available.saturating_add(creatable).saturating_add(spare) < place.lacking {
                return Err(Failure::OutOfMemory);
            }
            wanted = wanted.min(available);
        }
        self.take(pages, home, heap, &victims, wanted);
        self.fill(pages, heap, &place)?;
        self.settle_in(heap, &place, bytes, requested)
    }

    /// Bytes that may be created for a request: within the slack over the peak of live bytes, and the limit.
    fn may_create(&self, held: u64, bytes: u64) -> u64 {
        let (live, peak) = self.lanes.live();
        let most = peak.max(live + bytes);
        let promise = most + (most as f64 * self.settings.slack) as u64;
        promise.min(self.limit()).saturating_sub(held) / PAGE * PAGE
    }

    fn settle_in(
        &self,
        heap: &mut Heap,
        place: &Place,
        bytes: u64,
        requested: u64,
    ) -> Result<DevicePtr, Failure> {
        let id = heap.free_around(place.begin, place.end).ok_or(Failure::OutOfMemory)?;
        Ok(heap.take_at(id, place.begin, bytes, requested))
    }
}
