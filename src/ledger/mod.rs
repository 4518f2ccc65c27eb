//! Who holds what: counters, call sites, loaded modules, events.
//!
//! Every number that a report needs lives in [`Books`], a plain struct of atomics without pointers. The preload puts it
//! into a file that is mapped shared, so the numbers survive SIGKILL and `cenote recover` can read them.
//!
//! # Invariants
//! 1. The ledger learns a block after the driver gave it and forgets it before the driver gets it back: between the two,
//!    another thread may be given the same address.
//! 2. A counter goes down by exactly what it went up by, on the device of the allocation, whoever frees.
//!
//! # Locks
//! None is held across a call of the driver or out of this module.

mod books;
mod events;
mod live;
mod modules;
mod sites;

pub use books::{Books, Counter, DeviceBook, KINDS, MAX_DEVICES, SITE_DEPTH, SITES};
pub use events::{EventKind, EventState, Events, Happening};
pub use live::{Block, Kind, LiveBlocks};
pub use modules::{MODULES, Module, ModuleSlot};
pub use sites::{SiteId, SiteSlot, Sites};

pub use crate::pool::{PoolBook, Ratchet};
