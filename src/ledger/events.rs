//! Things that happened, and remarks. Both lists are bounded: a job that goes wrong a million times keeps the first ones
//! and a count.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::SiteId;

/// Events that are kept.
const EVENTS: usize = 256;

/// Kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// An allocation was refused.
    OutOfMemory,
    /// A block was freed twice.
    DoubleFree,
    /// A pointer into the middle of a block was freed.
    InteriorFree,
    /// A context died with live blocks.
    LostWithContext,
    /// A peer's handle was closed more often than opened.
    UnbalancedClose,
    /// A sub-block was exported: the peer can reach the whole segment.
    SharedSegment,
}

/// Memory at the moment of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
pub struct EventState {
    /// Bytes in the program's hands on the device.
    pub live_bytes: u64,
    /// Bytes that the pool has.
    pub reserved_bytes: u64,
    /// Free in the pool after everything that could be given back was.
    pub free_bytes: u64,
    /// Largest free block of the pool.
    pub largest_free_bytes: u64,
    /// What the driver had free.
    pub driver_free_bytes: u64,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
}

/// An event with bare addresses; the report names them.
#[derive(Debug, Clone)]
pub struct Happening {
    /// What.
    pub kind: EventKind,
    /// Nanoseconds after the first CUDA call.
    pub at_ns: u64,
    /// Device.
    pub device: Option<u32>,
    /// Address.
    pub address: Option<u64>,
    /// What was asked for.
    pub requested_bytes: Option<u64>,
    /// Memory at that moment.
    pub state: Option<EventState>,
    /// Sites that held most: site, bytes, blocks.
    pub holders: Vec<(SiteId, u64, u64)>,
    /// Stack of the call, innermost first.
    pub stack: Vec<u64>,
    /// Stack of the allocation.
    pub allocated_at: Vec<u64>,
    /// Stack of the free before.
    pub freed_at: Vec<u64>,
    /// One sentence.
    pub text: String,
}

impl Happening {
    /// An event of which only the kind, the time and the sentence are known yet.
    pub fn new(kind: EventKind, at_ns: u64, text: String) -> Self {
        Happening {
            kind,
            at_ns,
            device: None,
            address: None,
            requested_bytes: None,
            state: None,
            holders: Vec::new(),
            stack: Vec::new(),
            allocated_at: Vec::new(),
            freed_at: Vec::new(),
            text,
        }
    }
}

#[derive(Debug, Default)]
struct Lists {
    events: Vec<Happening>,
    events_cut: u64,
    /// By code: the sentence and how often.
    notes: BTreeMap<&'static str, (String, u64)>,
}

/// The lists of a process.
#[derive(Debug, Default)]
pub struct Events {
    lists: Mutex<Lists>,
}

impl Events {
    /// Empty lists.
    pub const fn new() -> Self {
        let lists = Lists { events: Vec::new(), events_cut: 0, notes: BTreeMap::new() };
        Events { lists: Mutex::new(lists) }
    }

    /// Writes an event down.
    pub fn happened(&self, event: Happening) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if lists.events.len() < EVENTS {
            lists.events.push(event);
        } else {
            lists.events_cut += 1;
        }
    }

    /// Writes a remark down; the first sentence for a code stays.
    pub fn note(&self, code: &'static str, text: impl FnOnce() -> String) {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.notes.entry(code).or_insert_with(|| (text(), 0)).1 += 1;
    }

    /// Copies of the events, and how many were cut.
    pub fn events(&self) -> (Vec<Happening>, u64) {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        (lists.events.clone(), lists.events_cut)
    }

    /// Code, sentence and count of each remark.
    pub fn notes(&self) -> Vec<(&'static str, String, u64)> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.notes.iter().map(|(code, (text, n))| (*code, text.clone(), *n)).collect()
    }
}
