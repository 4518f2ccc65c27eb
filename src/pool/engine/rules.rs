//! Rules that the configuration adds; without them the engine rounds to 512 bytes, splits every block and collects nothing.

use super::blocks::UNIT;
use super::device::Engine;
use super::streams::{Home, SMALL};
use crate::conf::{Divisions, Settings};
use crate::cuda::{Card, DevicePtr, Failure};

/// What the keys of the configuration say of blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// `roundup_power2_divisions`
    pub divisions: Divisions,
    /// `max_split_size_mb`, in bytes: see [`whole`](super::whole).
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb`, in bytes.
    pub max_non_split_rounding: u64,
    /// `garbage_collection_threshold`: see [`garbage`](super::garbage).
    pub collect_above: Option<f64>,
}

impl Rules {
    /// None.
    pub const NONE: Rules = Rules {
        divisions: Divisions::NONE,
        max_split_size: None,
        max_non_split_rounding: 0,
        collect_above: None,
    };

    /// What the settings say.
    pub fn of(settings: &Settings) -> Self {
        Rules {
            divisions: settings.roundup_power2_divisions,
            max_split_size: settings.max_split_size,
            max_non_split_rounding: settings.max_non_split_rounding,
            collect_above: settings.garbage_collection_threshold,
        }
    }
}

impl<C: Card> Engine<C> {
    /// Bytes of the block for a request; none if the device has less.
    #[inline]
    pub fn block_bytes(&self, requested: u64) -> Option<u64> {
        let exact = exact(requested).filter(|&bytes| bytes <= self.settings.total)?;
        if !self.rounds {
            return Some(exact);
        }
        let rounded = self.rules.divisions.round(requested);
        Some(rounded.filter(|&bytes| bytes <= self.settings.total).unwrap_or(exact))
    }

    /// A block for a request that no free one holds, and its bytes. Nothing is refused for being rounded up: before that the request is
    /// tried with no more than it needs.
    #[cold]
    pub(super) fn miss(
        &self,
        home: &Home,
        bytes: u64,
        requested: u64,
    ) -> Result<(DevicePtr, u64), Failure> {
        let answer = self.grow(home, bytes, requested);
        // A heap of larger blocks holds none below their size.
        let least = if bytes < SMALL { UNIT } else { SMALL };
        let needed = exact(requested).unwrap_or(bytes).max(least);
        if answer != Err(Failure::OutOfMemory) || needed >= bytes {
            return answer.map(|address| (address, bytes));
        }
        self.pages().stats.ooms -= 1;
        self.grow(home, needed, requested).map(|address| (address, needed))
    }
}

/// No more than a request needs.
#[inline]
fn exact(requested: u64) -> Option<u64> {
    requested.max(1).checked_next_multiple_of(UNIT)
}
