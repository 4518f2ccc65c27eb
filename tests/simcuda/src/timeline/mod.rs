//! When work runs: streams, events, and the work that has not ended.
//!
//! Durations are known when work is submitted, so its start and end are known too. Two pieces of
//! work of different streams that touch the same bytes, at least one writing, must not overlap
//! in time: the second to be submitted must start after the first has ended.
//!
//! # Invariants
//! 1. `works` holds all work that ends after the last [`Timeline::settle`], by end and number.
//!
//! # Not here
//! Waiting (`state.rs`), captures (`capture.rs`), what work does (`operation.rs`).

mod event;
mod stream;
mod work;

use std::collections::BTreeMap;

pub(crate) use event::{CaptureMark, Event};
pub(crate) use stream::{Role, Stream};
pub(crate) use work::{Effect, Plan, Touch, Work};

use crate::clock::Time;
use crate::violation::violation;

const FIRST_STREAM: u64 = 0x5354_0000_0000;
const FIRST_EVENT: u64 = 0x4556_0000_0000;

/// Streams, events and unfinished work of the process.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    streams: BTreeMap<u64, Stream>,
    events: BTreeMap<u64, Event>,
    works: BTreeMap<(Time, u64), Work>,
    /// Earliest start of new work by context, set by `cuCtxWaitEvent`.
    floors: BTreeMap<u64, Time>,
    made: u64,
}

impl Timeline {
    fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    pub(crate) fn add_stream(&mut self, context: u64, role: Role) -> u64 {
        let handle = FIRST_STREAM + 16 * self.next_number();
        self.streams.insert(handle, Stream { context, role, tail: 0, capture: None });
        handle
    }

    pub(crate) fn stream(&self, handle: u64) -> Option<&Stream> {
        self.streams.get(&handle)
    }

    pub(crate) fn stream_mut(&mut self, handle: u64) -> Option<&mut Stream> {
        self.streams.get_mut(&handle)
    }

    /// The default stream of a context, made when first used.
    pub(crate) fn default_stream(&mut self, context: u64, role: Role) -> u64 {
        let found = self.streams.iter().find(|(_, s)| s.context == context && s.role == role);
        match found {
            Some((handle, _)) => *handle,
            None => self.add_stream(context, role),
        }
    }

    /// Takes every stream out of a capture that has ended.
    pub(crate) fn release_capture(&mut self, capture: u64) {
        let members = self.streams.values_mut().filter(|stream| stream.capture == Some(capture));
        members.for_each(|stream| stream.capture = None);
    }

    /// Ends a stream's handle; its work goes on.
    pub(crate) fn remove_stream(&mut self, handle: u64) {
        self.streams.remove(&handle);
    }

    pub(crate) fn add_event(&mut self, context: u64, timed: bool) -> u64 {
        let handle = FIRST_EVENT + 16 * self.next_number();
        self.events.insert(handle, Event { context, timed, done: None, mark: None });
        handle
    }

    pub(crate) fn event(&self, handle: u64) -> Option<&Event> {
        self.events.get(&handle)
    }

    pub(crate) fn event_mut(&mut self, handle: u64) -> Option<&mut Event> {
        self.events.get_mut(&handle)
    }

    pub(crate) fn remove_event(&mut self, handle: u64) -> Option<Event> {
        self.events.remove(&handle)
    }

    /// Ends every stream and event of a context.
    pub(crate) fn forget_context(&mut self, context: u64) {
        self.streams.retain(|_, stream| stream.context != context);
        self.events.retain(|_, event| event.context != context);
        self.floors.remove(&context);
    }

    /// When work submitted to the stream now would start.
    ///
    /// The legacy stream and blocking streams of a context wait for each other.
    pub(crate) fn next_start(&self, handle: u64, now: Time) -> Time {
        let Some(stream) = self.streams.get(&handle) else { return now };
        let floor = self.floors.get(&stream.context).copied().unwrap_or(0);
        let others = self.streams.values().filter(|other| other.context == stream.context);
        let before = others.filter(|other| stream.waits_for(other)).map(|other| other.tail).max();
        now.max(stream.tail).max(floor).max(before.unwrap_or(0))
    }

    /// Submits work; gives the time of its end.
    pub(crate) fn submit(&mut self, handle: u64, plan: Plan, now: Time) -> Time {
        let start = self.next_start(handle, now);
        let end = start + plan.duration;
        let number = self.next_number();
        let context = self.streams.get(&handle).map_or(0, |stream| stream.context);
        let work = Work {
            number,
            what: plan.what,
            stream: handle,
            context,
            start,
            end,
            touches: plan.touches,
            effects: plan.effects,
        };
        self.report_conflicts(&work);
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.tail = end;
        }
        self.works.insert((end, number), work);
        end
    }

    fn report_conflicts(&self, new: &Work) {
        let earlier = self.works.range((new.start + 1, 0)..).map(|(_, work)| work);
        for old in earlier.filter(|old| old.stream != new.stream) {
            if let Some((old_touch, new_touch)) = old.conflict_with(new) {
                violation!(
                    "overlap: {new} touches {:#x}+{:#x} from {} ns, \
                     but {old} touches {:#x}+{:#x} until {} ns",
                    new_touch.address,
                    new_touch.extent.len,
                    new.start,
                    old_touch.address,
                    old_touch.extent.len,
                    old.end
                );
            }
        }
    }

    /// Makes later work of the stream wait until a time.
    pub(crate) fn delay_stream(&mut self, handle: u64, until: Time) {
        if let Some(stream) = self.streams.get_mut(&handle) {
            stream.tail = stream.tail.max(until);
        }
    }

    /// Makes later work of every stream of the context wait until a time.
    pub(crate) fn delay_context(&mut self, context: u64, until: Time) {
        let floor = self.floors.entry(context).or_default();
        *floor = until.max(*floor);
    }

    /// When all work submitted to the context so far will have ended.
    pub(crate) fn context_idle_at(&self, context: u64, now: Time) -> Time {
        let tails = self.streams.values().filter(|s| s.context == context).map(|s| s.tail);
        let works = self.works.values().filter(|work| work.context == context).map(|work| work.end);
        tails.chain(works).max().unwrap_or(0).max(now)
    }

    /// Work that touches the address range and has not ended.
    pub(crate) fn user_of(&self, address: u64, len: u64, now: Time) -> Option<&Work> {
        let mut unfinished = self.works.range((now + 1, 0)..).map(|(_, work)| work);
        unfinished.find(|work| work.uses(address, len))
    }

    /// When the work submitted so far that touches the same bytes, at any address, will have ended.
    pub(crate) fn bytes_idle_at(&self, touches: &[Touch], now: Time) -> Time {
        let meets = |work: &&Work| {
            work.touches.iter().any(|mine| touches.iter().any(|t| t.extent.overlaps(&mine.extent)))
        };
        self.works.values().filter(meets).map(|work| work.end).max().unwrap_or(0).max(now)
    }

    /// As [`Timeline::user_of`], without one stream's work.
    pub(crate) fn other_user_of(
        &self,
        address: u64,
        len: u64,
        after: Time,
        stream: u64,
    ) -> Option<&Work> {
        let mut unfinished = self.works.range((after + 1, 0)..).map(|(_, work)| work);
        unfinished.find(|work| work.stream != stream && work.uses(address, len))
    }

    /// The work that has ended by now, in the order of its ends.
    pub(crate) fn settle(&mut self, now: Time) -> Vec<Work> {
        let mut ended = Vec::new();
        while let Some(entry) = self.works.first_entry()
            && entry.key().0 <= now
        {
            ended.push(entry.remove());
        }
        ended
    }
}

#[cfg(test)]
mod tests;
