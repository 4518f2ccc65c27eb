//! The report `cenote.report/1`: its types, its writer, and the sums that every reader needs.
//!
//! The preload fills a [`Report`] from the books of the process; the command line reads one back. They meet only here.
//!
//! | file | what it is |
//! | --- | --- |
//! | `schema` | the types, which are the JSON Schema too |
//! | `build` | from a [`Snapshot`] of the books to a [`Report`]; the files below do the parts of it |
//! | `devices`, `fragmentation`, `leaks` | the numbers of a device |
//! | `sites`, `owner`, `frames`, `symbols`, `events` | who called: from addresses to names |
//! | `rank`, `template`, `write` | who the process is in its job, where its report goes, putting it there |
//! | `read` | reading a report with messages that help |
//!
//! # Invariants
//! 1. Integers are bytes, counts and nanoseconds; addresses are `"0x..."` strings; keys carry their unit.
//! 2. Lists that can grow with the job are capped when the report is made, and [`Truncated`] says what was cut.
//! 3. Within version 1 fields are only added. A reader takes any report whose `schema` is [`SCHEMA`].
//! 4. Nothing here panics, prints or reads the environment: [`build`] runs inside the job, while it exits. Whatever bits the
//!    books hold, a report comes out.
#![forbid(unsafe_code)]

mod build;
mod devices;
mod events;
pub mod fragmentation;
mod frames;
pub mod leaks;
pub mod owner;
mod rank;
#[cfg(feature = "cli")]
mod read;
mod schema;
mod sites;
mod symbols;
mod template;
pub mod write;

pub use build::{Snapshot, build};
pub use rank::rank;
#[cfg(feature = "cli")]
pub use read::{ReadError, parse, read};
pub use schema::*;
pub use template::Template;
