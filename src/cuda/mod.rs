//! The driver: its types as plain integers, the table of its functions, and the trait that the pool is written against.
//!
//! Functions are taken from the `libcuda.so.1` that is already mapped, never by a search: a stub library on the path must not
//! win over the real one. A function that the driver lacks is a feature that is off, not an error.
//!
//! # Invariants
//! 1. A slot of the [`table`] is 0 or the address of the function of that name in the driver's library.
//! 2. Results are passed on as they are; [`CuResult`] is an integer, so that a code from a newer driver is no undefined
//!    behaviour.

#[macro_use]
mod api;
mod card;
mod driver;
mod layout;
pub mod loader;
pub mod table;
mod types;

pub use card::{Card, Handle};
pub use driver::{Driver, Event, Failure};
pub use layout::{AccessDesc, AllocationProp, FILE_DESCRIPTOR, IpcHandle};
pub use table::{Function, real};
pub use types::{ContextHandle, CuResult, DevicePtr, StreamHandle};
