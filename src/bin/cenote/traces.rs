//! Traces, as the verbs that replay them read them.

use std::path::Path;

use cenote::replay::{ReplayError, Trace, TraceError};

use crate::exit::{FAILED, Failure, OTHER_VERSION, UNREADABLE};

/// Reads a trace. Of one that is cut off it says so.
pub(crate) fn read(path: &Path) -> Result<Trace, Failure> {
    let trace = Trace::read(path).map_err(|error| match error {
        TraceError::Version { .. } => Failure::new(OTHER_VERSION, error),
        error => Failure::new(UNREADABLE, error),
    })?;
    if trace.is_cut {
        let path = path.display();
        anstream::eprintln!(
            "cenote: {path} was not closed: the job was killed, or still runs; it is taken as far as it goes"
        );
    }
    Ok(trace)
}

/// The engine is at fault.
pub(crate) fn at_fault(path: &Path, error: &ReplayError) -> Failure {
    let report = "report it with the trace, it is a fault of cenote";
    Failure::new(FAILED, format!("{}: {error}; {report}", path.display()))
}
