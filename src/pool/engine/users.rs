//! Who uses memory beside the stream that orders it: streams that a block was recorded on, and those that graphs ran on.

use super::blocks::{Id, State};
use super::device::Engine;
use super::heap::Heap;
use crate::cuda::{Card, CuResult, Event, StreamHandle};

/// Streams that use memory beside the one that orders it.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Those without an event yet: the memory is not freed, or the stream captured.
    pub(super) streams: Vec<StreamHandle>,
    /// Events behind the work of the others.
    events: Vec<Event>,
    /// Whatever was submitted before now may use it, and has no event yet.
    everything: bool,
    /// A stream ended of which no event was to be had: nobody will ever know.
    is_lost: bool,
}

impl Users {
    pub(super) fn are_none(&self) -> bool {
        self.streams.is_empty() && self.events.is_empty() && !self.everything && !self.is_lost
    }

    /// All work on the device that was submitted before now uses it, also on streams that nobody named.
    pub(super) fn add_everything(&mut self) {
        self.everything = true;
    }

    pub(super) fn add(&mut self, stream: StreamHandle) {
        if !self.streams.contains(&stream) {
            self.streams.push(stream);
        }
    }
}

/// A freed block that other streams still use.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) id: Id,
    users: Users,
}

impl<C: Card> Engine<C> {
    /// Adds events behind the work of the streams that have none.
    pub(super) fn record_users(&self, users: &mut Users) {
        if users.everything {
            let recorded = self.card.record_everything();
            // Where there is no such event the streams that are known have to do.
            users.everything =
                recorded.as_ref().is_err_and(|&code| code != CuResult::NOT_SUPPORTED);
            users.events.extend(recorded.ok().flatten());
        }
        users.streams.retain(|&stream| match self.card.record(stream) {
            Ok(event) => {
                users.events.push(event);
                false
            }
            Err(_) => true,
        });
    }

    fn drop_done(&self, users: &mut Users) {
        users.events.retain(|&event| {
            let is_done = self.card.is_done(event);
            if is_done {
                self.card.recycle(event);
            }
            !is_done
        });
    }

    fn wait(&self, users: &Users) {
        users.events.iter().for_each(|&event| _ = self.card.wait(event));
    }

    /// A freed block waits for the streams that it was recorded on. False if there are none.
    pub(super) fn wait_for_users(&self, heap: &mut Heap, id: Id) -> bool {
        let users = heap.uses.remove(&id).filter(|users| !users.are_none());
        let Some(mut users) = users else { return false };
        self.record_users(&mut users);
        heap.blocks[id].state = State::Pending;
        heap.pending.push(Pending { id, users });
        true
    }

    /// Frees the blocks that no other stream uses any more, and learns which graphs are done.
    pub(super) fn poll_users(&self, heap: &mut Heap) {
        self.record_users(&mut heap.gate);
        self.drop_done(&mut heap.gate);
        for mut pending in std::mem::take(&mut heap.pending) {
            self.record_users(&mut pending.users);
            self.drop_done(&mut pending.users);
            if pending.users.are_none() {
                heap.put(pending.id);
            } else {
                heap.pending.push(pending);
            }
        }
    }

    /// Waits for all of them that have events.
    pub(super) fn wait_for_all_users(&self, heap: &mut Heap) {
        self.poll_users(heap);
        self.wait(&heap.gate);
        heap.pending.iter().for_each(|pending| self.wait(&pending.users));
        self.poll_users(heap);
    }

    /// A stream ends: an event takes its place wherever it is named, since it can't be asked later, and its name may go to another.
    pub(super) fn forget_user(&self, heap: &mut Heap, stream: StreamHandle) {
        let pending = heap.pending.iter_mut().map(|pending| &mut pending.users);
        for users in heap.uses.values_mut().chain(pending).chain([&mut heap.gate]) {
            self.drop_done(users);
            let Some(at) = users.streams.iter().position(|&user| user == stream) else { continue };
            users.streams.swap_remove(at);
            match self.card.record(stream) {
                Ok(event) => users.events.push(event),
                Err(_) => users.is_lost = true,
            }
        }
    }
}
