//! The books of the simulated card: what memory there is, what lies where, which events are in use; and the rules.

use std::collections::BTreeMap;

use super::costs::EVENT;
use crate::cuda::{CuResult, Event, Handle};

/// Physical memory and its addresses come in multiples of this.
pub(super) const PAGE: u64 = 2 << 20;

/// A call that breaks a rule of the driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {what}")]
pub struct Violation {
    /// The driver's function.
    pub call: &'static str,
    /// The rule, and what was passed.
    pub what: String,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) peak: u64,
    pub(super) cost_ns: u64,
    pub(super) next_address: u64,
    /// Begin and end of the reserved ranges.
    pub(super) reserved: BTreeMap<u64, u64>,
    /// What lies where, by address.
    pub(super) mappings: BTreeMap<u64, Mapping>,
    /// Physical memory; its handle is the place here and 1. Handles are never used again.
    pub(super) memory: Vec<Memory>,
    /// Whether an event is in use.
    pub(super) events: Vec<bool>,
    pub(super) spare_events: Vec<Event>,
    pub(super) violation: Option<Violation>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Mapping {
    pub(super) bytes: u64,
    pub(super) handle: Handle,
    pub(super) is_enabled: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) bytes: u64,
    pub(super) mapped: u32,
    pub(super) is_released: bool,
}

impl State {
    pub(super) fn refuse(&mut self, call: &'static str, what: String) -> CuResult {
        self.violation.get_or_insert(Violation { call, what });
        CuResult::INVALID_VALUE
    }

    /// The end of a range of whole pages.
    pub(super) fn pages(
        &mut self,
        call: &'static str,
        at: u64,
        bytes: u64,
    ) -> Result<u64, CuResult> {
        match at.checked_add(bytes) {
            Some(end) if bytes > 0 && at.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) => {
                Ok(end)
            }
            _ => {
                Err(self
                    .refuse(call, format!("{bytes} bytes at {at:#x} are no whole pages of 2 MiB")))
            }
        }
    }

    /// The memory of a handle that is not released.
    pub(super) fn memory(
        &mut self,
        call: &'static str,
        handle: Handle,
    ) -> Result<&mut Memory, CuResult> {
        let place = usize::try_from(handle).unwrap_or(0).wrapping_sub(1);
        match self.memory.get(place).map(|memory| memory.is_released) {
            Some(false) => Ok(&mut self.memory[place]),
            Some(true) => Err(self.refuse(call, format!("handle {handle} was released"))),
            None => Err(self.refuse(call, format!("there is no handle {handle}"))),
        }
    }

    /// The mappings that make up a range exactly, by address and size.
    pub(super) fn run(
        &mut self,
        call: &'static str,
        at: u64,
        end: u64,
    ) -> Result<Vec<(u64, u64)>, CuResult> {
        let mut covered = at;
        let mut run = Vec::new();
        for (&begin, mapping) in self.mappings.range(at..end) {
            if begin != covered {
                break;
            }
            covered += mapping.bytes;
            run.push((begin, mapping.bytes));
        }
        if covered == end {
            return Ok(run);
        }
        let what = if run.is_empty() && self.overlapped(at, end).is_none() {
            "nothing is mapped"
        } else {
            "a part of a mapping, or a gap,"
        };
        Err(self.refuse(call, format!("{what} at {at:#x} to {end:#x}")))
    }

    /// A mapping that shares an address with a range.
    pub(super) fn overlapped(&self, at: u64, end: u64) -> Option<u64> {
        let last = self.mappings.range(..end).next_back();
        last.filter(|&(&begin, mapping)| begin + mapping.bytes > at).map(|(&begin, _)| begin)
    }

    /// Memory that is released and mapped nowhere is gone.
    pub(super) fn settle(&mut self, memory: Memory) {
        if memory.is_released && memory.mapped == 0 {
            self.used -= memory.bytes;
        }
    }

    pub(super) fn event(&mut self, call: &'static str, event: Event) -> bool {
        self.cost_ns += EVENT;
        let is_known = self.events.get(event as usize) == Some(&true);
        if !is_known {
            self.refuse(call, format!("event {event} is not in use"));
        }
        is_known
    }
}
