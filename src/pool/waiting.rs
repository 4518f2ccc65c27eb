//! Freed slots that wait for the work in flight, in batches behind one event each.
//!
//! Context events are totally ordered: each covers all work submitted before it, so when one is done all earlier ones are.
//! The queue is asked from the front and stops at the first event that is not done.
//!
//! # Invariants
//! 1. A slot's event was recorded after its free.
//! 2. Batches are in the order of their events.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::cuda::Event;

/// Address of the segment, and slot in it.
pub(super) type Member = (u64, u32);

#[derive(Debug)]
struct Batch {
    number: u64,
    event: Arc<Event>,
    members: Vec<Member>,
    bytes: u64,
}

impl Batch {
    fn ticket(&self) -> Ticket {
        Ticket { number: self.number, event: Arc::clone(&self.event) }
    }
}

/// A batch that somebody waits for.
#[derive(Debug, Clone)]
pub(super) struct Ticket {
    pub(super) number: u64,
    pub(super) event: Arc<Event>,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Freed, without an event yet.
    open: Vec<Member>,
    open_bytes: u64,
    batches: VecDeque<Batch>,
    next: u64,
}

/// Slots whose work is done, and events that nobody needs any more.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) members: Vec<Member>,
    pub(super) events: Vec<Event>,
}

impl Settled {
    /// Slots that have no event.
    pub(super) fn of(members: Vec<Member>) -> Self {
        Settled { members, events: Vec::new() }
    }
}

impl Waiting {
    /// Most batches in flight: beyond it, freed slots share the next event.
    const BATCHES: usize = 256;
    /// Freed slots without an event beyond which one is recorded at the next free.
    pub(super) const OPEN: usize = 64;

    /// A slot was freed. Its batch has the number that is returned.
    pub(super) fn push(&mut self, member: Member, bytes: u64) -> u64 {
        self.open.push(member);
        self.open_bytes += bytes;
        self.next
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.batches.is_empty()
    }

    /// Slots without an event.
    pub(super) fn open_len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn has_room(&self) -> bool {
        self.batches.len() < Self::BATCHES
    }

    /// Takes out the slots without an event, for the time of a synchronise that makes them ready.
    pub(super) fn take_open(&mut self) -> (Vec<Member>, u64) {
        (std::mem::take(&mut self.open), std::mem::take(&mut self.open_bytes))
    }

    /// The synchronise failed.
    pub(super) fn put_back(&mut self, (mut members, bytes): (Vec<Member>, u64)) {
        self.open.append(&mut members);
        self.open_bytes += bytes;
    }

    /// Forgets the slots of segments that went back to the driver: another segment may begin there next.
    pub(super) fn forget(&mut self, segments: &[u64]) {
        let stays = |(address, _): &Member| !segments.contains(address);
        self.open.retain(stays);
        self.batches.iter_mut().for_each(|batch| batch.members.retain(stays));
    }

    /// Puts the open slots behind an event that was just recorded.
    pub(super) fn close(&mut self, event: Event) {
        // The next free finds room without asking for it.
        let members = std::mem::replace(&mut self.open, Vec::with_capacity(8));
        let bytes = std::mem::take(&mut self.open_bytes);
        let event = Arc::new(event);
        self.batches.push_back(Batch { number: self.next, event, members, bytes });
        self.next += 1;
    }

    /// Everything whose event is done.
    pub(super) fn poll(&mut self, is_done: impl Fn(Event) -> bool) -> Settled {
        let mut settled = Settled::default();
        while self.batches.front().is_some_and(|batch| is_done(*batch.event)) {
            self.pop(&mut settled);
        }
        settled
    }

    /// Everything up to a batch that is known to be done.
    pub(super) fn done_up_to(&mut self, number: u64) -> Settled {
        let mut settled = Settled::default();
        while self.batches.front().is_some_and(|batch| batch.number <= number) {
            self.pop(&mut settled);
        }
        settled
    }

    /// Everything: the context was synchronised, or is gone.
    pub(super) fn all_done(&mut self) -> Settled {
        let mut settled = self.done_up_to(u64::MAX);
        settled.members.append(&mut self.open);
        settled
    }

    fn pop(&mut self, settled: &mut Settled) {
        let Some(batch) = self.batches.pop_front() else { return };
        settled.members.extend(batch.members);
        // Whoever waits for the event drops the last reference, and recycles it.
        settled.events.extend(Arc::into_inner(batch.event));
    }

    /// A ticket for a batch.
    pub(super) fn ticket(&self, number: u64) -> Option<Ticket> {
        self.batches.iter().find(|batch| batch.number == number).map(Batch::ticket)
    }

    /// A ticket for the oldest batch with which, and with those before it, so many bytes are done.
    pub(super) fn ticket_for(&self, mut bytes: u64) -> Option<Ticket> {
        let enough = |batch: &&Batch| {
            bytes = bytes.saturating_sub(batch.bytes);
            bytes == 0
        };
        self.batches.iter().find(enough).or(self.batches.back()).map(Batch::ticket)
    }

    /// A ticket for the newest batch.
    pub(super) fn newest(&self) -> Option<Ticket> {
        self.batches.back().map(Batch::ticket)
    }
}
