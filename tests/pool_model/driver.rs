//! A strict card: it gives memory, runs work on streams under a clock of its own, and panics at every call that the real
//! driver would answer with an error, a broken capture or a crash.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cenote::cuda::{CuResult, DevicePtr, Driver, Event, Failure};

use super::faults::{Call, Faults};
use super::intruder::{self, Moment};
use super::memory::Memory;

/// What happened since the last operation began.
#[derive(Debug, Default, Clone)]
pub(crate) struct Log {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) records: u64,
    /// Calls that waited, or would have had there been work: wait, synchronise, free.
    pub(crate) waits: u64,
    pub(crate) faults: u64,
    /// A wait ended before the work.
    pub(crate) gave_up: bool,
    pub(crate) out_of_memory: bool,
    pub(crate) refusals: Vec<CuResult>,
}

#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) memory: Memory,
    pub(crate) capacity: u64,
    pub(crate) context_events: bool,
    pub(crate) captures: u32,
    pub(crate) dead: bool,
    pub(crate) faults: Faults,
    pub(crate) log: Log,
    /// Successful allocations, and calls of free, since its birth.
    pub(crate) totals: (u64, u64),
    /// Microseconds.
    pub(crate) now: u64,
    /// When the last work of each stream ends.
    streams: [u64; 4],
    work: Vec<(Range<u64>, u64)>,
    /// Events of the pool: when the work before each is done.
    events: BTreeMap<Event, u64>,
    /// Recycled ones, in this order; they come again, but not at once.
    spare: VecDeque<Event>,
    issued: u64,
}

impl Card {
    pub(crate) fn new(capacity: u64, context_events: bool) -> Self {
        Card {
            memory: Memory::default(),
            capacity,
            context_events,
            captures: 0,
            dead: false,
            faults: Faults::default(),
            log: Log::default(),
            totals: (0, 0),
            now: 1000,
            streams: [0; 4],
            work: Vec::new(),
            events: BTreeMap::new(),
            spare: VecDeque::new(),
            issued: 0,
        }
    }

    /// Queues work on a range of addresses.
    pub(crate) fn launch(&mut self, stream: usize, range: Range<u64>, micros: u64) {
        let end = self.streams[stream].max(self.now) + micros;
        self.streams[stream] = end;
        self.work.push((range, end));
    }

    /// When all work that was submitted is done.
    pub(crate) fn all_done_at(&self) -> u64 {
        self.streams.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.all_done_at() <= self.now
    }

    pub(crate) fn advance_to(&mut self, time: u64) {
        self.now = self.now.max(time);
        self.work.retain(|&(_, end)| end > self.now);
    }

    /// Whether work in flight touches a range.
    pub(crate) fn is_busy(&self, range: &Range<u64>) -> bool {
        let mut work = self.work.iter();
        work.any(|(w, end)| *end > self.now && w.start < range.end && range.start < w.end)
    }

    /// Events that the pool has.
    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }

    fn enter(&mut self, call: Call) -> Result<(), CuResult> {
        assert!(!self.dead, "{call:?} after the context died");
        // Both are taken from a thread in relaxed mode (measured).
        let taken = matches!(call, Call::Allocate | Call::Free);
        assert!(self.captures == 0 || taken, "{call:?} during a capture");
        let fault = self.faults.next(call);
        self.log.faults += u64::from(fault.is_err());
        fault
    }

    fn due(&self, event: Event) -> u64 {
        *self.events.get(&event).unwrap_or_else(|| panic!("event {event} is not the pool's"))
    }
}

/// The card, as the pool sees it.
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<Mutex<Card>>);

impl Handle {
    pub(crate) fn new(card: Card) -> Self {
        Handle(Arc::new(Mutex::new(card)))
    }

    pub(crate) fn card(&self) -> MutexGuard<'_, Card> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for Handle {
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, Failure> {
        intruder::visit(Moment::Any);
        let answer = {
            let card = &mut *self.card();
            assert_ne!(bytes, 0, "an allocation of nothing");
            let taken = card.enter(Call::Allocate).and_then(|()| {
                card.memory.take(bytes, card.capacity).ok_or(CuResult::OUT_OF_MEMORY)
            });
            match taken {
                Ok(_) => {
                    card.log.allocations += 1;
                    card.totals.0 += 1;
                }
                Err(CuResult::OUT_OF_MEMORY) => card.log.out_of_memory = true,
                Err(code) => card.log.refusals.push(code),
            }
            taken.map_err(Failure::from)
        };
        intruder::visit(Moment::Any);
        answer
    }

    fn free(&self, address: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        intruder::visit(Moment::NoCapture);
        let answer = {
            let card = &mut *self.card();
            let held = card.memory.at(address);
            let held = held.unwrap_or_else(|| panic!("free of {address:#x}, which is not held"));
            assert_eq!(held.bytes, bytes, "free of {address:#x} with another size");
            let answer = card.enter(Call::Free);
            card.log.frees += 1;
            card.totals.1 += 1;
            card.log.waits += 1;
            match answer {
                Ok(()) => {
                    let done = card.all_done_at();
                    card.advance_to(done);
                    card.memory.give_back(address);
                }
                Err(_) => card.memory.lose(address),
            }
            answer
        };
        intruder::visit(Moment::Any);
        answer
    }

    fn record(&self) -> Result<Event, CuResult> {
        let card = &mut *self.card();
        card.enter(Call::Record)?;
        if !card.context_events {
            return Err(CuResult(801));
        }
        card.log.records += 1;
        let spare = card.spare.len() > 4;
        let event = spare.then(|| card.spare.pop_front()).flatten().unwrap_or_else(|| {
            card.issued += 1;
            card.issued
        });
        let due = card.all_done_at();
        card.events.insert(event, due);
        Ok(event)
    }

    fn is_done(&self, event: Event) -> bool {
        let card = &mut *self.card();
        let due = card.due(event);
        card.enter(Call::IsDone).is_ok() && due <= card.now
    }

    fn wait(&self, event: Event, patience_ms: u64) -> Result<bool, CuResult> {
        intruder::visit(Moment::NoCapture);
        let answer = {
            let card = &mut *self.card();
            card.log.waits += 1;
            let due = card.due(event);
            let end = due.min(card.now.saturating_add(patience_ms.saturating_mul(1000)));
            card.enter(Call::Wait).map(|()| card.advance_to(end)).map(|()| due <= end)
        };
        self.card().log.gave_up |= answer == Ok(false);
        intruder::visit(Moment::Any);
        answer
    }

    fn recycle(&self, event: Event) {
        let card = &mut *self.card();
        assert!(!card.dead, "recycle after the context died");
        assert!(card.events.remove(&event).is_some(), "event {event} recycled, not the pool's");
        card.spare.push_back(event);
    }

    fn synchronise(&self) -> Result<(), CuResult> {
        intruder::visit(Moment::Synchronising);
        let answer = {
            let card = &mut *self.card();
            card.log.waits += 1;
            let done = card.all_done_at();
            card.enter(Call::Synchronise).map(|()| card.advance_to(done))
        };
        intruder::visit(Moment::Synchronising);
        answer
    }

    fn has_context_events(&self) -> bool {
        self.card().context_events
    }

    fn now_ms(&self) -> u64 {
        self.card().now / 1000
    }
}
