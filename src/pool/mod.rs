//! Which block goes to whom, and when: the pool of one context.
//!
//! The pool keeps whole allocations of the driver (*segments*) after their free and hands them out again; blocks under 1 MiB
//! are cut from 2 MiB segments with slots of one size (*slabs*). It knows no stream: at the level of `cuMemFree` nobody says
//! which streams used a block. So a freed slot is *waiting* until an event behind all work of the context is done, and only
//! then *ready*.
//!
//! Memory for callers that name their stream comes from the [`engine`].
//!
//! Everything here is policy, generic over [`Driver`](crate::cuda::Driver) and deterministic: the same calls with the same
//! answers give the same addresses.
//!
//! # Invariants
//! 1. A slot is in one state at a time; only a ready one is handed out, only a live one is freed.
//! 2. A slot becomes ready only when an event recorded after its free is done, or the context was synchronised after it.
//! 3. A slot that a peer process was given becomes ready never again.
//! 4. `reserved = live + cached + waiting + internal`, after every call.
//! 5. No out-of-memory while memory that could be given back would cover the request.
//!
//! # Locks
//! The books of a pool have one mutex, which is not held while the driver allocates, frees or waits. Two more order threads:
//! `barrier` is held while the context is synchronised, so that no capture begins meanwhile; `returning` while segments that are
//! in no book go back to the driver, or a spare comes from it, so that a thread that is refused can wait for them. Either may be held
//! when the books are locked; with the books locked nobody waits for them, though a spare may try.
#![forbid(unsafe_code)]

mod context;
pub mod engine;
mod gauges;
mod inspect;
mod ladder;
mod segment;
mod sizes;
mod spares;
mod state;
mod waiting;

pub use context::{Config, Pool, Pressed};
pub use gauges::{PoolBook, Ratchet};
pub use inspect::{Located, SegmentView, WrongFree};
pub use segment::SlotState;
pub use sizes::{SLAB_BYTES, SMALL_BYTES};
