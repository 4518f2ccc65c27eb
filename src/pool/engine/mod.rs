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
//! Where little may still be taken, two things more are done so that what is left of pages with a live block is of use: a gap that a
//! request fills is filled before a free block is cut, and the [ends of a block](lend) lie on pages that serve others too.
//!
//! Everything here is policy, generic over [`Card`](crate::cuda::Card) and deterministic.
//!
//! # Invariants
//! 1. The blocks of a heap cover its addresses without gaps or overlaps, and no two neighbours are both free or both holes.
//! 2. Every address of a live, pending or free block is mapped. A hole and a [moved](blocks::State::Moved) block have no mapping
//!    in the books; of the latter the driver still has one. So it is with the addresses where a live block borrows.
//! 3. A page is given to another stream, or back to the driver, only when an event behind its last free is done.
//! 4. `reserved` is the sum of all handles that were created and not released. The driver counts one that is released for as long
//!    as its old address is mapped: until the work that may use it there is done.
//! 5. No memory belongs to two blocks: what is lent is [tied](blocks::State::Tied) where it lies, and so are the addresses of an alias
//!    that show what is not lent. Lender and borrower are of one heap, so that one stream orders all who have it in turn.
//!
//! # Locks
//! Whoever changes where memory is takes `pages`, then one heap at a time. `grow` alone keeps its own heap and locks others, one at
//! a time: nobody else waits for a second lock while it has a heap's, so that none waits for another in a circle. Streams and pools
//! begin and end under a lock of their own, without `pages`, with one heap at a time inside. The hit path takes its heap's lock alone,
//! and all may look at the counters, whose lock has none inside.

mod bins;
mod blocks;
mod device;
mod garbage;
mod grow;
mod guard;
mod heap;
mod inspect;
mod lanes;
mod lend;
mod loans;
mod place;
mod rules;
mod sharing;
mod span;
mod stats;
mod streams;
mod supply;
mod sync;
mod users;
mod whole;

pub use device::{Engine, EngineSettings};
pub use inspect::{BlockState, BlockView, Usage};
pub use lanes::Lane;
pub use rules::Rules;
pub use sharing::Backing;
pub use stats::{Count, SmallStats, Stats};
