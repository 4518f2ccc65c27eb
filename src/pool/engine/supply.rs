//! Physical memory: where it comes from, and how it gets to its place.

use super::blocks::{State, UNIT};
use super::device::Engine;
use super::guard::Guard;
use super::heap::{Heap, Stale};
use super::place::Place;
use super::span::{Mapping, PAGE};
use super::stats::Stats;
use super::streams::Home;
use crate::cuda::{Card, CuResult, Failure, Handle};

/// The price of memory is that of the handle, whatever its size, but a handle moves as a whole: what is free of it is of no use
/// elsewhere while one block in it lives. So a new handle has at most so many bytes,
const LARGEST: u64 = 32 << 20;
/// and at most this part of what is held,
const OF_HELD: u64 = 256;
/// and of what may still be taken.
const OF_LEFT: u64 = 2048;

/// The physical memory of a device.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) stats: Stats,
    /// Handles that lie nowhere.
    pub(super) spare: Vec<(Handle, u64)>,
    pub(super) guard: Guard,
}

/// Memory that nobody has: a whole mapping in a free block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Victim<'a> {
    pub(super) home: &'a Home,
    pub(super) mapping: Mapping,
    /// Whether all work that used it is done, so that it can go back to the driver.
    pub(super) is_idle: bool,
    /// Bytes of the free block that it is part of.
    of: u64,
    /// When that was freed, by the clock of its heap.
    pub(super) since: u64,
}

/// What goes where to fill what a place lacks.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    /// Memory that moves, and to which address.
    pub(super) moves: Vec<(Victim<'a>, u64)>,
    /// Memory that goes back to the driver: too large for any run, or in the way of a limit.
    pub(super) gives: Vec<Victim<'a>>,
    /// Runs of addresses for new memory.
    pub(super) creates: Vec<(u64, u64)>,
}

impl<C: Card> Engine<C> {
    /// Adds an event behind the frees of a heap so far, unless there is one, and learns which are done.
    pub(super) fn poll(&self, home: &Home, heap: &mut Heap) {
        self.record(home, heap);
        while let Some(&(number, event)) = heap.events.front() {
            if !self.card.is_done(event) {
                break;
            }
            heap.events.pop_front();
            heap.done = number;
            self.card.recycle(event);
        }
        self.unmap_stale(heap);
        self.poll_users(heap);
    }

    fn record(&self, home: &Home, heap: &mut Heap) {
        if heap.is_due
            && !heap.is_over
            && let Ok(event) = self.card.record(home.stream())
        {
            heap.events.push_back((heap.next_event, event));
            heap.next_event += 1;
            heap.is_due = false;
        }
    }

    /// Records the last event of a stream that ends: it covers all that was ever submitted. If there is none to be had the heap's
    /// memory stays where it is, since nobody will ever know.
    pub(super) fn close(&self, home: &Home, heap: &mut Heap) {
        heap.settle();
        heap.is_due = true;
        self.record(home, heap);
        heap.is_over = true;
    }

    /// Waits until all frees of a heap so far are done.
    pub(super) fn wait_for(&self, home: &Home, heap: &mut Heap) {
        // Blocks that other streams use come first: once they are free, the event of their own stream must be behind them.
        self.wait_for_all_users(heap);
        self.record(home, heap);
        if let Some(&(_, event)) = heap.events.back() {
            self.card.wait(event);
        }
        self.poll(home, heap);
    }

    pub(super) fn wait_for_all(&self) {
        for home in self.streams.all() {
            self.wait_for(home, &mut home.lock());
        }
    }

    /// Takes addresses from the driver's map whose memory has moved away and that nobody uses any more.
    pub(super) fn unmap_stale(&self, heap: &mut Heap) {
        let done = heap.done;
        let (due, stale): (Vec<_>, Vec<_>) =
            heap.stale.drain(..).partition(|stale| stale.number <= done);
        heap.stale = stale;
        for Stale { id, .. } in due {
            let (begin, end) = (heap.blocks[id].address, heap.blocks[id].end());
            // Should the driver refuse, the addresses are lost and nothing else.
            if self.card.unmap(begin, end - begin).is_ok() {
                heap.change(id, begin, end, State::Hole);
            }
        }
    }

    /// All memory that could move to a place in `home`, that of the largest free block first. Memory of other streams must be done
    /// with.
    pub(super) fn victims<'a>(
        &'a self,
        home: &'a Home,
        own: &mut Heap,
        place: &Place,
    ) -> Vec<Victim<'a>> {
        let mut victims = Vec::new();
        let here = (place.begin / PAGE * PAGE, place.end.next_multiple_of(PAGE));
        collect(home, own, here, home.pool() == 0, &mut victims);
        for other in self.streams.all().filter(|other| !std::ptr::eq(*other, home)) {
            let mut heap = other.lock();
            heap.settle();
            // A graph of a private pool may run on any stream, and a retired heap is of another stream of that name.
            let same = other.stream() == home.stream() && home.pool() == 0 && !other.is_retired();
            if !same {
                self.poll(other, &mut heap);
            }
            collect(other, &mut heap, (0, 0), same, &mut victims);
        }
        victims.sort_by_key(|victim| std::cmp::Reverse(victim.of));
        victims
    }

    /// Takes whole mappings off a free range: their memory may go elsewhere, and the addresses go when the work on them is done.
    /// False if the range is not free.
    pub(super) fn detach(&self, home: &Home, heap: &mut Heap, run: &[Mapping]) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return false };
        let (begin, end) = (first.address, last.end());
        let Some(id) = heap.free_around(begin, end) else { return false };
        run.iter().for_each(|&mapping| heap.span.remove(mapping));
        let id = heap.change(id, begin, end, State::Moved);
        let number = heap.blocks[id].freed;
        heap.stale.push(Stale { number, id });
        self.poll(home, heap);
        true
    }

    /// Brings memory to what a place lacks, as planned. Returns false if a victim is not what it was: another thread took it.
    ///
    /// # Errors
    /// If there is no new memory to be had. What was brought stays there, as free memory.
    pub(super) fn carry_out(
        &self,
        pages: &mut Pages,
        home: &Home,
        own: &mut Heap,
        place: &Place,
        plan: Plan<'_>,
    ) -> Result<bool, Failure> {
        for victim in &plan.gives {
            if !self.pick_up(home, own, victim) {
                return Ok(false);
            }
            self.release(pages, victim.mapping.handle, victim.mapping.bytes);
        }
        let (moved, all) = (plan.moves.len() as u64, pages.stats.handles.current);
        pages.guard.moved(moved, all);
        for (victim, address) in &plan.moves {
            if !self.pick_up(home, own, victim) {
                return Ok(false);
            }
            pages.stats.pages_moved += 1;
            pages.stats.moved_bytes += victim.mapping.bytes;
            self.put(pages, own, *address, victim.mapping.bytes, victim.mapping.handle)?;
        }
        for (mut begin, end) in plan.creates {
            while begin < end {
                let bytes = self.new_handle(pages, place.end - place.begin, end - begin);
                let handle = self.create(pages, bytes)?;
                self.put(pages, own, begin, bytes, handle)?;
                begin += bytes;
            }
        }
        Ok(true)
    }

    /// Takes a mapping off its free block. False if it is not free any more, or was handed out meanwhile and may be in use.
    pub(super) fn pick_up(&self, home: &Home, own: &mut Heap, victim: &Victim<'_>) -> bool {
        let is_own = std::ptr::eq(victim.home, home);
        let mut other = (!is_own).then(|| victim.home.lock());
        let heap = other.as_deref_mut().unwrap_or(own);
        heap.settle();
        let Mapping { address, .. } = victim.mapping;
        let is_there = heap.span.mapping(address) == Some(victim.mapping);
        let around = heap.free_around(address, victim.mapping.end());
        let is_right = around.is_some_and(|id| !victim.is_idle || heap.is_idle(id));
        let may_move = is_there && is_right && !victim.home.is_pinned();
        may_move && self.detach(victim.home, heap, &[victim.mapping])
    }

    /// Whether so little may still be taken that all new handles are of the smallest size.
    pub(super) fn is_short(&self, pages: &Pages) -> bool {
        self.left(pages) / OF_LEFT < 2 * PAGE
    }

    /// Bytes that may still be taken.
    fn left(&self, pages: &Pages) -> u64 {
        self.limit().min(self.settings.total).saturating_sub(pages.stats.reserved_bytes.current)
    }

    /// Size of the next handle of a run that lacks `lacking` bytes, for a request of `bytes`: a power of two.
    fn new_handle(&self, pages: &Pages, bytes: u64, lacking: u64) -> u64 {
        let left = self.left(pages);
        let held = pages.stats.reserved_bytes.current + bytes;
        let most =
            bytes.min(LARGEST).min(left / OF_LEFT).min(held / OF_HELD).min(lacking).max(PAGE);
        1 << most.ilog2()
    }

    fn create(&self, pages: &mut Pages, bytes: u64) -> Result<Handle, Failure> {
        if pages.stats.reserved_bytes.current + bytes > self.limit() {
            return Err(Failure::OutOfMemory);
        }
        let handle = self.card.create(bytes)?;
        pages.stats.pages_created += 1;
        pages.stats.handles.add(1);
        pages.stats.reserved_bytes.add(bytes);
        Ok(handle)
    }

    /// Puts a handle at an address in a hole.
    fn put(
        &self,
        pages: &mut Pages,
        heap: &mut Heap,
        address: u64,
        bytes: u64,
        handle: Handle,
    ) -> Result<(), CuResult> {
        let mapped = self.card.map(address, bytes, handle).and_then(|()| {
            self.card.enable(address, bytes).inspect_err(|_| _ = self.card.unmap(address, bytes))
        });
        let hole = heap.hole_around(address, address + bytes).ok_or(CuResult::INVALID_VALUE);
        match mapped.and(hole) {
            Ok(hole) => {
                heap.span.insert(Mapping { address, bytes, handle });
                // Work of this stream may still use the memory at its old address, whoever gets it next.
                heap.blocks[hole].freed = heap.next_event;
                heap.is_due = true;
                heap.change(hole, address, address + bytes, State::Free);
                Ok(())
            }
            Err(code) => {
                pages.spare.push((handle, bytes));
                Err(code)
            }
        }
    }

    /// Gives a handle back that is mapped nowhere.
    pub(super) fn release(&self, pages: &mut Pages, handle: Handle, bytes: u64) {
        if self.card.release(handle, bytes).is_ok() {
            pages.stats.handles.sub(1);
            pages.stats.reserved_bytes.sub(bytes);
        }
    }

    /// Gives back what is in the hand.
    pub(super) fn release_spare(&self, pages: &mut Pages) {
        for (handle, bytes) in std::mem::take(&mut pages.spare) {
            self.release(pages, handle, bytes);
        }
    }
}

/// The whole mappings of a heap's free blocks, outside of a range. Those of another stream must be idle.
pub(super) fn collect<'a>(
    home: &'a Home,
    heap: &mut Heap,
    except: (u64, u64),
    same_stream: bool,
    victims: &mut Vec<Victim<'a>>,
) {
    if home.is_pinned() {
        return;
    }
    for id in heap.free.at_least(&heap.blocks, PAGE / UNIT).chain(heap.whole.at_least(PAGE)) {
        let block = &heap.blocks[id];
        let is_idle = heap.is_idle(id);
        if !same_stream && !is_idle {
            continue;
        }
        let outside = |mapping: &Mapping| mapping.end() <= except.0 || mapping.address >= except.1;
        let whole = heap.span.within(block.address, block.end()).filter(outside);
        let (of, since) = (block.bytes, block.since);
        victims.extend(whole.map(|mapping| Victim { home, mapping, is_idle, of, since }));
    }
}
