//! Physical memory: where it comes from, and how it gets to its place.

use super::blocks::{Id, State, UNIT};
use super::device::Engine;
use super::heap::{Heap, Pending, Stale};
use super::lanes::Stats;
use super::place::Place;
use super::span::{Mapping, PAGE};
use super::streams::Home;
use crate::cuda::{Card, CuResult, Failure, Handle};

/// The price of memory is that of the handle, whatever its size, but a handle moves as a whole: what is free of it is of no use
/// elsewhere while one block in it lives. So a new handle has at most so many bytes,
const LARGEST: u64 = 64 << 20;
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
}

/// Free memory that could move: whole mappings of one free block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Victim<'a> {
    pub(super) home: &'a Home,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) bytes: u64,
    /// Bytes of the free block that it is part of.
    of: u64,
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
        self.poll_pending(heap);
    }

    fn record(&self, home: &Home, heap: &mut Heap) {
        if heap.is_due
            && let Ok(event) = self.card.record(home.stream)
        {
            heap.events.push_back((heap.next_event, event));
            heap.next_event += 1;
            heap.is_due = false;
        }
    }

    /// Waits until all frees of a heap so far are done.
    pub(super) fn wait_for(&self, home: &Home, heap: &mut Heap) {
        self.record(home, heap);
        if let Some(&(_, event)) = heap.events.back() {
            self.card.wait(event);
        }
        for pending in &heap.pending {
            pending.events.iter().for_each(|&event| _ = self.card.wait(event));
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

    /// A freed block waits for the streams that it was recorded on. False if there are none.
    pub(super) fn wait_for_users(&self, heap: &mut Heap, id: Id) -> bool {
        let (ours, others): (Vec<_>, Vec<_>) = heap.uses.drain(..).partition(|&(of, _)| of == id);
        heap.uses = others;
        if ours.is_empty() {
            return false;
        }
        let mut pending = Pending { id, events: Vec::new(), unrecorded: Vec::new() };
        for (_, stream) in ours {
            match self.card.record(stream) {
                Ok(event) => pending.events.push(event),
                Err(_) => pending.unrecorded.push(stream),
            }
        }
        heap.blocks[id].state = State::Pending;
        heap.pending.push(pending);
        true
    }

    /// Frees the blocks that no other stream uses any more.
    fn poll_pending(&self, heap: &mut Heap) {
        for mut pending in std::mem::take(&mut heap.pending) {
            pending.unrecorded.retain(|&stream| match self.card.record(stream) {
                Ok(event) => {
                    pending.events.push(event);
                    false
                }
                Err(_) => true,
            });
            let is_done = |&event: &u64| {
                let done = self.card.is_done(event);
                if done {
                    self.card.recycle(event);
                }
                !done
            };
            pending.events.retain(is_done);
            if pending.events.is_empty() && pending.unrecorded.is_empty() {
                heap.put(pending.id);
            } else {
                heap.pending.push(pending);
            }
        }
    }

    /// All memory that could move to a place in `home`, from the largest free block down. Memory of other streams must be done with.
    pub(super) fn victims<'a>(
        &'a self,
        home: &'a Home,
        own: &mut Heap,
        place: &Place,
    ) -> Vec<Victim<'a>> {
        let mut victims = Vec::new();
        let (begin, end) = (place.begin / PAGE * PAGE, place.end.next_multiple_of(PAGE));
        self.collect(home, own, Some((begin, end)), true, &mut victims);
        for other in
            self.streams.all().filter(|other| !std::ptr::eq(*other, home) && other.pool == 0)
        {
            let mut heap = other.lock();
            heap.settle();
            let same = other.stream == home.stream;
            if !same {
                self.poll(other, &mut heap);
            }
            self.collect(other, &mut heap, None, same, &mut victims);
        }
        victims.sort_by_key(|victim| std::cmp::Reverse(victim.of));
        victims
    }

    fn collect<'a>(
        &self,
        home: &'a Home,
        heap: &mut Heap,
        except: Option<(u64, u64)>,
        same_stream: bool,
        victims: &mut Vec<Victim<'a>>,
    ) {
        if home.pool != 0 {
            return;
        }
        for id in heap.free.at_least(&heap.blocks, PAGE / UNIT) {
            let block = &heap.blocks[id];
            if !same_stream && block.freed > heap.done {
                continue;
            }
            let (begin, end) = (block.address, block.end());
            let (before, after) = except.unwrap_or((end, end));
            for (begin, end) in [(begin, end.min(before)), (begin.max(after), end)] {
                let bytes = if begin < end {
                    heap.span.within(begin, end).map(|mapping| mapping.bytes).sum()
                } else {
                    0
                };
                if bytes > 0 {
                    victims.push(Victim { home, begin, end, bytes, of: block.bytes });
                }
            }
        }
    }

    /// Takes whole mappings off a free range: their memory may go elsewhere, and the addresses go when the work on them is done.
    pub(super) fn detach(&self, home: &Home, heap: &mut Heap, run: &[Mapping]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let (begin, end) = (first.address, last.end());
        let Some(id) = heap.free_around(begin, end) else { return };
        run.iter().for_each(|&mapping| heap.span.remove(mapping));
        let id = heap.change(id, begin, end, State::Moved);
        let number = heap.blocks[id].freed;
        heap.stale.push(Stale { number, id });
        self.poll(home, heap);
    }

    /// Takes `bytes` from the victims, into the hand.
    pub(super) fn take(
        &self,
        pages: &mut Pages,
        home: &Home,
        own: &mut Heap,
        victims: &[Victim<'_>],
        mut bytes: u64,
    ) {
        for victim in victims {
            if bytes == 0 {
                break;
            }
            let is_own = std::ptr::eq(victim.home, home);
            let mut other = (!is_own).then(|| victim.home.lock());
            let heap = other.as_deref_mut().unwrap_or(own);
            heap.settle();
            if heap.free_around(victim.begin, victim.end).is_none() {
                continue;
            }
            let mut run = Vec::new();
            for mapping in heap.span.within(victim.begin, victim.end) {
                if bytes == 0 {
                    break;
                }
                bytes = bytes.saturating_sub(mapping.bytes);
                run.push(mapping);
            }
            self.detach(victim.home, heap, &run);
            pages.stats.pages_moved += run.len() as u64;
            for mapping in run {
                pages.stats.moved_bytes += mapping.bytes;
                pages.spare.push((mapping.handle, mapping.bytes));
            }
        }
    }

    /// Brings memory to what a place lacks: what is in the hand, and new memory for the rest.
    ///
    /// # Errors
    /// If there is no new memory to be had. What was brought stays there, as free memory.
    pub(super) fn fill(
        &self,
        pages: &mut Pages,
        heap: &mut Heap,
        place: &Place,
    ) -> Result<(), Failure> {
        let mut runs = place.lacks.clone();
        pages.spare.sort_by_key(|&(_, bytes)| bytes);
        for (handle, bytes) in std::mem::take(&mut pages.spare).into_iter().rev() {
            match runs.iter_mut().find(|(begin, end)| end - begin >= bytes) {
                Some(run) => {
                    self.put(pages, heap, run.0, bytes, handle)?;
                    run.0 += bytes;
                }
                None => pages.spare.push((handle, bytes)),
            }
        }
        let lacking: u64 = runs.iter().map(|(begin, end)| end - begin).sum();
        if lacking > 0 && !pages.spare.is_empty() {
            // Too large for any run: smaller ones take their place.
            self.release_spare(pages);
        }
        for (mut begin, end) in runs {
            while begin < end {
                let bytes = self.new_handle(pages, place.end - place.begin, end - begin);
                let handle = self.create(pages, bytes)?;
                self.put(pages, heap, begin, bytes, handle)?;
                begin += bytes;
            }
        }
        Ok(())
    }

    /// Size of the next handle of a run that lacks `lacking` bytes, for a request of `bytes`: a power of two.
    fn new_handle(&self, pages: &Pages, bytes: u64, lacking: u64) -> u64 {
        let left = self
            .limit()
            .min(self.settings.total)
            .saturating_sub(pages.stats.reserved_bytes.current);
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
        let reserved = &mut pages.stats.reserved_bytes;
        reserved.current += bytes;
        reserved.allocated += bytes;
        reserved.peak = reserved.peak.max(reserved.current);
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
                heap.change(hole, address, address + bytes, State::Free);
                Ok(())
            }
            Err(code) => {
                pages.spare.push((handle, bytes));
                Err(code)
            }
        }
    }

    /// Gives back what is in the hand.
    pub(super) fn release_spare(&self, pages: &mut Pages) {
        for (handle, bytes) in pages.spare.drain(..) {
            if self.card.release(handle, bytes).is_ok() {
                let reserved = &mut pages.stats.reserved_bytes;
                reserved.current -= bytes;
                reserved.freed += bytes;
            }
        }
    }
}
