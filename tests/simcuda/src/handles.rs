//! From handles that the caller passes to streams and events that live. Use of a dead one is a
//! violation.

use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::state::Sim;
use crate::thread;
use crate::timeline::{Event, Role};
use crate::violation::violation;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

impl Sim {
    /// The stream that a handle names; 0 means the default stream of the function called.
    pub(crate) fn stream_named(&mut self, handle: u64, default: DefaultStream) -> Outcome<u64> {
        let role = match (handle, default) {
            (LEGACY, _) | (0, DefaultStream::Legacy) => Role::Legacy,
            (PER_THREAD, _) | (0, DefaultStream::PerThread) => Role::PerThread(thread::id()),
            _ if self.timeline.stream(handle).is_some() => return Ok(handle),
            _ => {
                violation!("use of the stream {handle:#x}, which is destroyed or unknown");
                return Err(Code::INVALID_HANDLE);
            }
        };
        let context = self.contexts.current()?;
        Ok(self.timeline.default_stream(context, role))
    }

    /// The event that a handle names.
    pub(crate) fn event_named(&self, handle: u64) -> Outcome<&Event> {
        self.timeline.event(handle).ok_or_else(|| {
            violation!("use of the event {handle:#x}, which is destroyed or unknown");
            Code::INVALID_HANDLE
        })
    }
}
