//! The doors into a process, what happens behind them, and the life cycle.
//!
//! A call comes in through one of three doors: the exported name itself, an address that [`dlsym`](dlsym::dlsym) gave, or one
//! that `cuGetProcAddress` gave. All three lead to the same function in [`doors`], which guards against recursion and panics
//! and hands the call to `calls`.
//!
//! # Invariants
//! 1. Until the first hooked call there is no file, thread, message, environment parsing or driver call.
//! 2. Nothing unwinds, exits or prints out of this module. After a panic the call goes to the driver.
//! 3. While a stream captures, nothing here records, synchronises, queries or frees.
//! 4. After exit has begun, nothing here calls the driver on its own account; the program's calls are passed on.
//! 5. In a forked child of a process that used CUDA, nothing here takes a lock.
//!
//! # Locks
//! In this order: the report path (`dump`), the helper thread's `at_work`, a context's maintenance lock, the making of contexts,
//! the list of captures, the locks of a pool. The list of contexts is read without one. None of them is held while the stack is
//! walked, since that takes the loader's lock.
#![expect(unsafe_code, reason = "the C ABI edge")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod budget;
mod calls;
mod clock;
mod contexts;
mod device;
pub mod dlsym;
pub mod doors;
mod driver;
mod dump;
mod environment;
mod keeper;
pub mod lifecycle;
mod log;
mod process;
pub(crate) mod shared;
mod signals;
mod stack;
mod torch;
pub(crate) mod trace;
