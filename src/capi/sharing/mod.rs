//! Memory of the engine in other processes.
//!
//! The driver hands physical memory over as a file descriptor, and a descriptor goes to another process through a socket. (Taking
//! it out of the other process with `pidfd_getfd` needs the right to trace it, which containers and Ubuntu's default refuse.) So
//! what PyTorch sends as a handle is a *ticket*: where to ask, the right to ask, and the numbers of the memory. A thread of the
//! exporter sleeps in `accept` from its first export on. A descriptor lives only while it is on its way.
//!
//! # Invariants
//! 1. A number is given to a handle of the driver once and never again, and is struck off before the handle goes back to the driver: a
//!    ticket opens the memory that it was made for, or nothing.
//! 2. What was imported is unmapped only when all work that was submitted before its last close is done.
//!
//! # Locks
//! That of the exports is held while the driver exports, so that no handle goes back meanwhile; that of what is opened, while it is
//! mapped. Whoever has either takes no other lock of ours but those of events and captures.

mod exports;
mod opened;
mod serve;
mod socket;
mod ticket;

pub(super) use exports::{export, released};
pub(super) use opened::{close, let_in, open, settle};
pub(super) use serve::forked;

use crate::cuda::real;

/// `CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED`
const CAN_EXPORT: u32 = 103;

/// Whether the driver can export a device's memory as file descriptors.
pub(super) fn is_possible(device: u32) -> bool {
    let mut can = 0;
    // SAFETY: `can` is valid for the write, and the driver checks the ordinal.
    let code = unsafe { real::cuDeviceGetAttribute(&mut can, CAN_EXPORT, device as i32) };
    code.is_ok() && can != 0
}
