//! Why a trace could not be read, and what to do about it.

use std::io;
use std::path::PathBuf;

/// Why a file could not be read as a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused.
    #[error("can't read {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is no trace.
    #[error("{path} is no allocation trace: {what}; name a GTR1 file such as job.trz")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It has another version.
    #[error(
        "{path} has the format {magic}, and this is cenote {}, which reads GTR1: \
         record the trace as GTR1, or install the version of cenote that reads it",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its format.
        magic: String,
    },
    /// An event is wrong.
    #[error("{path}: event {event}: {what}; copy or record the trace again")]
    Event {
        /// The file.
        path: PathBuf,
        /// Which one, from 1.
        event: u64,
        /// What is wrong with it.
        what: String,
    },
}
