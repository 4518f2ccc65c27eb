//! Blocks ordered by stream, on pages that move: what the C API and PyTorch allocate from.
//!
//! A *heap* belongs to a stream and a class of sizes. It has one range of addresses, far larger than the card, that is divided
//! into blocks from end to end: live ones, free ones, and holes without memory. A freed block may go to the next owner on the
//! same stream at once, since the stream orders the two.
//!
//! When no free block holds a request, memory is *brought to an address*: the request goes where the fewest pages are missing,
//! and those are created, or taken from free blocks elsewhere. A page that is taken keeps its old address until the work that
//! may use it is done, so nobody waits. How much memory is held beyond what is live is a promise (`slack`, a limit), and not an
//! accident of sizes.
//!
//! Everything here is policy, generic over [`Card`](crate::cuda::Card) and deterministic.
//!
//! # Invariants
//! 1. The blocks of a heap cover its addresses without gaps or overlaps, and no two neighbours are both free or both holes.
//! 2. Every address of a live, pending or free block is mapped. A hole and a [moved](blocks::State::Moved) block have no mapping
//!    in the books; of the latter the driver still has one.
//! 3. A page is given to another stream, or back to the driver, only when an event behind its last free is done.
//! 4. `reserved` is the sum of all handles that the driver counts for us.
//!
//! # Locks
//! `pages` first, then one heap at a time, with no other lock inside. The hit path takes its heap's lock alone.

mod bins;
mod blocks;
mod device;
mod grow;
mod heap;
mod lanes;
mod place;
mod span;
mod streams;
mod supply;
mod users;

pub use device::{Engine, EngineSettings};
pub use lanes::{Count, Lane, Stats};
