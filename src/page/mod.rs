//! The mapped page of a process: its books and who it is, in a file that outlives it.
//!
//! The file is made by the first CUDA call and named `PID-NANOSECONDS.page`. It goes away when the report has been
//! written. What SIGKILL, a crash or an exec leaves behind is what `cenote recover` reads; `cenote run` looks for such
//! files by itself.
//!
//! # Invariants
//! 1. The layout is `repr(C)`, free of pointers, made of atomics only: every bit pattern is a valid page, so a reader needs
//!    no trust in the writer beyond [`MAGIC`] and the length.
//! 2. [`MAGIC`] is written last.
//!
//! # Not here
//! Where the numbers come from (`ledger`), and what a report makes of them (`report`).

mod layout;
mod map;
mod text;

pub use layout::{MAGIC, PageLayout, State};
pub use map::{PageError, PageFile, create, open, runtime_dir};
pub use text::Text;
