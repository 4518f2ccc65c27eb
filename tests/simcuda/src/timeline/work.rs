//! A piece of work on the device: what it touches, what it does, when it runs.

use std::fmt;

use crate::clock::Time;
use crate::physical::Extent;

/// Bytes that work reads or writes, and the address it knows them by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub(crate) extent: Extent,
    pub(crate) address: u64,
    pub(crate) write: bool,
}

/// What happens to memory when work ends.
#[derive(Debug)]
pub(crate) enum Effect {
    Fill {
        to: Extent,
        value: u8,
    },
    Store {
        to: Extent,
        bytes: Vec<u8>,
    },
    Copy {
        from: Vec<Extent>,
        to: Vec<Extent>,
    },
    /// Device to host; the caller keeps the host range valid until the work ends.
    Fetch {
        from: Vec<Extent>,
        host: u64,
    },
}

/// Work before it has a place in time.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) what: &'static str,
    pub(crate) duration: Time,
    pub(crate) touches: Vec<Touch>,
    pub(crate) effects: Vec<Effect>,
}

/// Submitted work.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) number: u64,
    pub(crate) what: &'static str,
    pub(crate) stream: u64,
    pub(crate) context: u64,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) touches: Vec<Touch>,
    pub(crate) effects: Vec<Effect>,
}

impl Work {
    /// Two touches of the same bytes of which one writes.
    pub(crate) fn conflict_with<'a>(&'a self, other: &'a Work) -> Option<(&'a Touch, &'a Touch)> {
        let mut pairs = self
            .touches
            .iter()
            .flat_map(|mine| other.touches.iter().map(move |theirs| (mine, theirs)));
        pairs.find(|(mine, theirs)| {
            (mine.write || theirs.write) && mine.extent.overlaps(&theirs.extent)
        })
    }

    /// Whether it touches bytes in the address range.
    pub(crate) fn uses(&self, address: u64, len: u64) -> bool {
        self.touches.iter().any(|touch| {
            touch.address < address + len && address < touch.address + touch.extent.len
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} no. {} on stream {:#x}", self.what, self.number, self.stream)
    }
}
