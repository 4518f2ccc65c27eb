//! An event: a mark behind work.

use crate::clock::Time;

/// Where in a capture an event was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CaptureMark {
    pub(crate) capture: u64,
    pub(crate) stream: u64,
    /// The capture's number of nodes at the record.
    pub(crate) position: usize,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: u64,
    pub(crate) timed: bool,
    /// When the work before the last record ends; `None` before the first record.
    pub(crate) done: Option<Time>,
    /// Set if the last record was made in a capturing stream.
    pub(crate) mark: Option<CaptureMark>,
}
