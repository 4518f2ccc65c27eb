//! Order between lines of work: recording events, and waiting for them on the device.

use crate::code::{Code, Outcome};
use crate::state::Sim;
use crate::violation::violation;

impl Sim {
    /// Records an event behind the work that the stream has now.
    pub(crate) fn record_event(&mut self, event: u64, stream: u64) -> Outcome {
        let context = self.timeline.stream(stream).ok_or(Code::INVALID_HANDLE)?.context;
        self.check_owner(event, context)?;
        self.respect_implicit_order(stream, "cuEventRecord")?;
        let mark = match self.capture_of(stream) {
            Some(capture) => Some(self.mark_capture(capture, stream)?),
            None => None,
        };
        let done = self.timeline.next_start(stream, self.now());
        if mark.is_none() {
            self.timeline.delay_stream(stream, done);
        }
        self.note_record(event, |found| (found.done, found.mark) = (Some(done), mark))
    }

    /// Records an event behind all work that the context has now.
    pub(crate) fn record_context_event(&mut self, context: u64, event: u64) -> Outcome {
        self.check_owner(event, context)?;
        let done = self.timeline.context_idle_at(context, self.now());
        self.note_record(event, |found| (found.done, found.mark) = (Some(done), None))
    }

    fn note_record(
        &mut self,
        event: u64,
        note: impl FnOnce(&mut crate::timeline::Event),
    ) -> Outcome {
        self.timeline.event_mut(event).map(note).ok_or(Code::INVALID_HANDLE)
    }

    /// An event can only be recorded in the context that it was created in.
    fn check_owner(&self, event: u64, context: u64) -> Outcome {
        let owner = self.event_named(event)?.context;
        if owner == context {
            return Ok(());
        }
        violation!("event {event:#x} of context {owner:#x} recorded in context {context:#x}");
        Err(Code::INVALID_HANDLE)
    }

    /// Makes later work of the stream wait for the event.
    pub(crate) fn stream_waits(&mut self, stream: u64, event: u64) -> Outcome {
        let found = self.event_named(event)?;
        let (done, mark) = (found.done.unwrap_or(0), found.mark);
        match (mark, self.capture_of(stream)) {
            (Some(mark), _) => self.join_capture(stream, mark),
            // In a capture, an event from outside is a dependency that the graph does not keep.
            (None, Some(_)) => Ok(()),
            (None, None) => {
                self.respect_implicit_order(stream, "cuStreamWaitEvent")?;
                self.timeline.delay_stream(stream, done);
                Ok(())
            }
        }
    }

    /// Makes later work of the whole context wait for the event.
    pub(crate) fn context_waits(&mut self, context: u64, event: u64) -> Outcome {
        let done = self.event_named(event)?.done.unwrap_or(0);
        self.timeline.delay_context(context, done);
        Ok(())
    }
}
