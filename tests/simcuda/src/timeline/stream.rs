//! A stream: a line of work in one context.

use crate::clock::Time;

/// Which line of work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The context's stream 0.
    Legacy,
    /// The default stream of one thread.
    PerThread(i32),
    Blocking,
    NonBlocking,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: u64,
    pub(crate) role: Role,
    /// When the work submitted so far, and all that it waits for, has ended.
    pub(crate) tail: Time,
    /// The capture that takes the stream's work instead of the device.
    pub(crate) capture: Option<u64>,
}

impl Stream {
    /// Whether new work here starts after the work that `other`, of the same context, has now.
    pub(crate) fn waits_for(&self, other: &Stream) -> bool {
        match (self.role, other.role) {
            (Role::NonBlocking, _) | (_, Role::NonBlocking) => false,
            (mine, theirs) => (mine == Role::Legacy) != (theirs == Role::Legacy),
        }
    }

    /// Whether it takes turns with the legacy stream.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.role, Role::Blocking | Role::PerThread(_))
    }
}
