//! What lies where in the page.

use std::sync::atomic::{AtomicU32, AtomicU64};

use super::Text;
use crate::ledger::Books;

/// First word of a page; the low bytes are the version of the layout.
pub const MAGIC: u64 = u64::from_be_bytes(*b"cenote\x00\x01");

/// Where the process is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// It runs, or it ended without a report.
    Running = 0,
    /// Its last report is written, at `report_path`.
    Reported = 1,
}

/// The whole page.
#[derive(Debug)]
#[repr(C)]
pub struct PageLayout {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// A [`State`].
    pub state: AtomicU32,
    /// Process id.
    pub pid: AtomicU32,
    /// Process id of the parent.
    pub parent_pid: AtomicU32,
    /// `cuDriverGetVersion`.
    pub driver_version: AtomicU32,
    /// First CUDA call, in Unix nanoseconds.
    pub started_unix_ns: AtomicU64,
    /// Last time that the process is known to have been alive, in Unix nanoseconds.
    pub updated_unix_ns: AtomicU64,
    /// Counts requests for a report; the process writes one when it sees the number change.
    pub requested: AtomicU64,
    /// The last request that was served.
    pub served: AtomicU64,
    /// Name of the machine.
    pub host: Text<256>,
    /// Path of the program.
    pub executable: Text<1024>,
    /// Command line, arguments ended by a zero byte.
    pub command: Text<4096>,
    /// `CENOTE_CONF`.
    pub configuration: Text<1024>,
    /// Where the report will go: `CENOTE_OUTPUT` with its placeholders, absolute.
    pub output: Text<2048>,
    /// Where the last report went.
    pub report_path: Text<2048>,
    /// The numbers.
    pub books: Books,
}
