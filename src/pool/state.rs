//! The books of a pool: segments, what is ready by size, what waits. Everything here runs under the pool's lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;

use super::gauges::PoolBook;
use super::segment::{Segment, SlotState};
use super::sizes::{Fit, SLAB_BYTES};
use super::spares::Spares;
use super::waiting::{Settled, Waiting};
use crate::cuda::Event;

/// Which cached blocks may serve a request that is smaller.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slack {
    pub(super) max_split_size: Option<u64>,
    pub(super) max_non_split_rounding: u64,
}

impl Slack {
    /// Whether a block may serve a smaller request: whole blocks are not split, so what is left over is lost until the next
    /// free.
    fn allows(&self, block: u64, request: u64) -> bool {
        let over = block - request;
        match self.max_split_size {
            Some(limit) if block >= limit => over <= self.max_non_split_rounding,
            _ => over <= request / 8,
        }
    }

    /// Sizes of blocks that may serve a request are in this range.
    fn range(&self, request: u64) -> std::ops::RangeInclusive<(u64, u64)> {
        let over = self.max_split_size.map_or(0, |_| self.max_non_split_rounding).max(request / 8);
        (request, 0)..=(request.saturating_add(over), u64::MAX)
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Ready whole blocks: size, address.
    ready: BTreeSet<(u64, u64)>,
    /// Waiting whole blocks: size, address, number of the batch.
    waiting_whole: BTreeMap<(u64, u64), u64>,
    /// Slabs with a ready slot, by number of slots.
    slabs: BTreeMap<u32, BTreeSet<u64>>,
    pub(super) waiting: Waiting,
    pub(super) spares: Spares,
    /// Streams of the process that capture: no events meanwhile.
    pub(super) captures: u32,
    /// Out of the books, and held back while the context may be ending: address, bytes.
    pub(super) doomed: Vec<(u64, u64)>,
    /// Segments that are in no book: not yet with the driver, or with it no more.
    pub(super) leaving: usize,
    /// The context may be ending: the driver is left alone until that is known.
    pub(super) frozen: bool,
    /// The context is gone.
    pub(super) dead: bool,
    /// Freed memory goes straight back: work that no event of this context covers may use it.
    pub(super) unpooled: bool,
    slack: Slack,
    book: &'static PoolBook,
}

impl State {
    pub(super) fn new(slack: Slack, book: &'static PoolBook) -> Self {
        State {
            segments: BTreeMap::new(),
            ready: BTreeSet::new(),
            waiting_whole: BTreeMap::new(),
            slabs: BTreeMap::new(),
            waiting: Waiting::default(),
            spares: Spares::default(),
            captures: 0,
            doomed: Vec::new(),
            leaving: 0,
            frozen: false,
            dead: false,
            unpooled: false,
            slack,
            book,
        }
    }

    /// Whether a stream captures and that is all that holds the pool back: frees are taken then (measured, from a thread in relaxed
    /// mode), events and synchronising are not.
    pub(super) fn is_capturing(&self) -> bool {
        self.captures > 0 && !self.frozen && !self.dead
    }

    /// Whether the pool may record, query, wait and free.
    pub(super) fn may_call(&self) -> bool {
        self.captures == 0 && !self.frozen && !self.dead
    }

    /// The segment that an address lies in.
    pub(super) fn segment_of(&self, address: u64) -> Option<&Segment> {
        let (_, segment) = self.segments.range(..=address).next_back()?;
        (address - segment.address < segment.bytes).then_some(segment)
    }

    /// Takes a ready slot for the request: the smallest that fits within the slack, the lowest address among equals.
    pub(super) fn take(&mut self, fit: Fit, tag: u64) -> Option<u64> {
        if fit.slots > 1 {
            let address = *self.slabs.get(&fit.slots)?.first()?;
            return self.hand_out(address, fit, tag);
        }
        let mut near = self.ready.range(self.slack.range(fit.slot_bytes));
        let &(_, address) = near.find(|(bytes, _)| self.slack.allows(*bytes, fit.slot_bytes))?;
        self.hand_out(address, fit, tag)
    }

    /// Takes any ready slot that is large enough, whatever it wastes: for when there is nothing else. The smallest one.
    pub(super) fn take_any(&mut self, fit: Fit, tag: u64) -> Option<u64> {
        let most = (SLAB_BYTES / fit.slot_bytes.max(1)).min(u64::from(u32::MAX)) as u32;
        let slabs = self.slabs.range(..=most).rev();
        let slab = slabs.filter_map(|(_, with_room)| with_room.first()).next();
        let whole = || self.ready.range((fit.slot_bytes, 0)..).next().map(|(_, address)| address);
        let address = *slab.or_else(whole)?;
        self.hand_out(address, fit, tag)
    }

    fn hand_out(&mut self, address: u64, fit: Fit, tag: u64) -> Option<u64> {
        let segment = self.segments.get_mut(&address)?;
        let slot = segment.first_ready()?;
        self.move_slot((address, slot), SlotState::Live, Some((fit.requested, tag)));
        self.segments.get(&address).map(|segment| segment.slot_address(slot))
    }

    /// Moves a slot to another state, and the numbers and indices with it. `owner` is size and tag of a new owner.
    pub(super) fn move_slot(
        &mut self,
        (address, slot): (u64, u32),
        to: SlotState,
        owner: Option<(u64, u64)>,
    ) {
        let Some(segment) = self.segments.get_mut(&address) else { return };
        let from = segment.slots[slot as usize].state;
        uncount(self.book, segment, slot, from);
        segment.set(slot, to);
        if let Some((requested, tag)) = owner {
            let slot = &mut segment.slots[slot as usize];
            (slot.requested, slot.allocated_by, slot.freed_by) = (requested, tag, 0);
        }
        count(self.book, segment, slot, to);
        let key = (segment.bytes, address);
        if segment.is_whole() {
            match to {
                SlotState::Ready => self.ready.insert(key),
                _ => self.ready.remove(&key),
            };
            if to != SlotState::Waiting {
                self.waiting_whole.remove(&key);
            }
        } else {
            let set = self.slabs.entry(segment.slots.len() as u32).or_default();
            match segment.count(SlotState::Ready) {
                0 => set.remove(&address),
                _ => set.insert(address),
            };
        }
    }

    /// A live slot was freed: it waits.
    pub(super) fn start_waiting(&mut self, member: (u64, u32)) {
        let bytes = self.segments.get(&member.0).map_or(0, |segment| segment.slot_bytes);
        let number = self.waiting.push(member, bytes);
        self.move_slot(member, SlotState::Waiting, None);
        if let Some(segment) = self.segments.get(&member.0).filter(|segment| segment.is_whole()) {
            self.waiting_whole.insert((segment.bytes, segment.address), number);
        }
    }

    /// The oldest batch in which a block waits that the request could have.
    pub(super) fn awaited(&self, fit: Fit) -> Option<u64> {
        let near = self.waiting_whole.range(self.slack.range(fit.slot_bytes));
        let fits = near.filter(|((bytes, _), _)| self.slack.allows(*bytes, fit.slot_bytes));
        fits.map(|(_, &number)| number).min().filter(|_| fit.slots == 1)
    }

    /// Work is done: what waited for it is ready. Returns the events to recycle.
    pub(super) fn settle(&mut self, settled: Settled, now_ms: u64) -> Vec<Event> {
        for member in settled.members {
            let exported =
                self.segments.get(&member.0).is_some_and(|s| s.slots[member.1 as usize].exported);
            let to = if exported { SlotState::Withheld } else { SlotState::Ready };
            self.move_slot(member, to, None);
            if let Some(segment) = self.segments.get_mut(&member.0) {
                segment.idle_since_ms = now_ms;
            }
        }
        settled.events
    }

    /// Takes exported slots that are ready out of use.
    pub(super) fn withhold(&mut self, address: u64) {
        let Some(segment) = self.segments.get(&address) else { return };
        let slots = segment.slots.iter().zip(0..);
        let ready = slots.filter(|(slot, _)| slot.exported && slot.state == SlotState::Ready);
        let ready: Vec<u32> = ready.map(|(_, index)| index).collect();
        for slot in ready {
            self.move_slot((address, slot), SlotState::Withheld, None);
        }
    }

    /// A segment came from the driver.
    pub(super) fn insert(&mut self, address: u64, fit: Fit, now_ms: u64) {
        let bytes = fit.segment_bytes();
        let segment = Segment::new(address, bytes, fit.slot_bytes, fit.slots, now_ms);
        self.book.reserved.add(bytes);
        let slotted = fit.slot_bytes * u64::from(fit.slots);
        self.book.cached.add(slotted);
        self.book.internal.add(bytes - slotted);
        if segment.is_whole() {
            self.spares.came(bytes);
            self.ready.insert((bytes, address));
        } else {
            self.slabs.entry(fit.slots).or_default().insert(address);
        }
        self.segments.insert(address, segment);
    }

    /// Takes a segment out of the books, whatever state its slots are in; it is to go back to the driver.
    pub(super) fn remove(&mut self, address: u64) -> Option<(u64, u64)> {
        let segment = self.segments.remove(&address)?;
        self.leaving += 1;
        for slot in 0..segment.slots.len() as u32 {
            uncount(self.book, &segment, slot, segment.slots[slot as usize].state);
        }
        self.book.internal.sub(segment.bytes - segment.slot_bytes * segment.slots.len() as u64);
        self.book.reserved.sub(segment.bytes);
        let key = (segment.bytes, address);
        self.ready.remove(&key);
        self.waiting_whole.remove(&key);
        if segment.is_whole() {
            self.spares.went(segment.bytes);
        }
        if let Some(set) = self.slabs.get_mut(&(segment.slots.len() as u32)) {
            set.remove(&address);
        }
        Some((address, segment.bytes))
    }

    /// Whole segments that nobody has: idle ones, and those that wait.
    pub(super) fn unowned(&self) -> Vec<u64> {
        let unowned = self.segments.values().filter(|segment| {
            segment.is_idle() || (segment.is_whole() && segment.count(SlotState::Live) == 0)
        });
        unowned.map(|segment| segment.address).collect()
    }

    /// Segments that nobody uses, the longest idle first: since when, address, bytes.
    pub(super) fn idle(&self) -> Vec<(u64, u64, u64)> {
        let idle = self.segments.values().filter(|segment| segment.is_idle());
        let mut idle: Vec<_> = idle.map(|s| (s.idle_since_ms, s.address, s.bytes)).collect();
        idle.sort_unstable();
        idle
    }
}

fn count(book: &PoolBook, segment: &Segment, slot: u32, state: SlotState) {
    let requested = segment.slots[slot as usize].requested;
    match state {
        SlotState::Live => {
            book.live.add(requested);
            book.live_blocks.fetch_add(1, Relaxed);
            book.internal.add(segment.slot_bytes - requested);
        }
        SlotState::Waiting => book.waiting.add(segment.slot_bytes),
        SlotState::Ready => book.cached.add(segment.slot_bytes),
        SlotState::Withheld => book.internal.add(segment.slot_bytes),
    }
}

fn uncount(book: &PoolBook, segment: &Segment, slot: u32, state: SlotState) {
    let requested = segment.slots[slot as usize].requested;
    match state {
        SlotState::Live => {
            book.live.sub(requested);
            book.live_blocks.fetch_sub(1, Relaxed);
            book.internal.sub(segment.slot_bytes - requested);
        }
        SlotState::Waiting => book.waiting.sub(segment.slot_bytes),
        SlotState::Ready => book.cached.sub(segment.slot_bytes),
        SlotState::Withheld => book.internal.sub(segment.slot_bytes),
    }
}
