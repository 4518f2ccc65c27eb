//! The reports that a verb was pointed to: files, or folders of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cenote::report::{self, Device, Event, EventKind, Leak, ReadError, Report};

use crate::exit::{Failure, OTHER_VERSION, UNREADABLE};

/// A report and where it is.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) report: Report,
}

/// Reads every report that is named; of a folder, every report in it. What can't be read is said on stderr and hides
/// nothing else: the second value is the status to end with.
pub(crate) fn load(paths: &[PathBuf]) -> (Vec<Found>, u8) {
    let mut found = Vec::new();
    let mut status = 0;
    let read = paths
        .iter()
        .flat_map(|path| if path.is_dir() { in_folder(path) } else { vec![read(path)] });
    for report in read {
        match report {
            Ok(report) => found.push(report),
            Err(failure) => {
                anstream::eprintln!("cenote: {failure}");
                status = status.max(failure.status);
            }
        }
    }
    (found, status)
}

/// Reads one report.
pub(crate) fn read(path: &Path) -> Result<Found, Failure> {
    match report::read(path) {
        Ok(report) => Ok(Found { path: path.to_owned(), report }),
        Err(error @ ReadError::Version { .. }) => Err(Failure::new(OTHER_VERSION, error)),
        Err(error) => Err(Failure::new(UNREADABLE, error)),
    }
}

/// Other JSON in the folder is passed over; a report that can't be read is not.
fn in_folder(folder: &Path) -> Vec<Result<Found, Failure>> {
    let failure = |message: String| vec![Err(Failure::new(UNREADABLE, message))];
    let paths = match json_files(folder) {
        Ok(paths) => paths,
        Err(error) => return failure(format!("can't list {}: {error}", folder.display())),
    };
    let is_report = |path: &PathBuf| !matches!(report::read(path), Err(ReadError::Foreign { .. }));
    let reports: Vec<_> =
        paths.iter().filter(|path| is_report(path)).map(|path| read(path)).collect();
    if reports.is_empty() {
        return failure(format!("{}: no cenote report in this folder", folder.display()));
    }
    reports
}

/// The files that may be reports, by name.
pub(crate) fn json_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    Ok(paths)
}

/// Every leak entry with its device.
pub(crate) fn all_leaks(report: &Report) -> impl Iterator<Item = (&Device, &Leak)> {
    report.devices.iter().flat_map(|device| device.leaks.iter().map(move |leak| (device, leak)))
}

/// The suspects among them.
pub(crate) fn suspects(report: &Report) -> impl Iterator<Item = (&Device, &Leak)> {
    all_leaks(report).filter(|(_, leak)| leak.class.is_suspect())
}

/// What the suspects hold; none where the report can't tell.
pub(crate) fn suspects_bytes(report: &Report) -> Option<u64> {
    let sum = suspects(report).fold(0u64, |sum, (_, leak)| sum.saturating_add(leak.bytes));
    (is_of_an_exit(report) && !saw_nothing(report)).then_some(sum)
}

/// The allocations that were refused.
pub(crate) fn refusals(report: &Report) -> impl Iterator<Item = &Event> {
    report.events.iter().filter(|event| event.kind == EventKind::OutOfMemory)
}

/// Whether a report tells what was live at exit.
pub(crate) fn is_of_an_exit(report: &Report) -> bool {
    matches!(
        report.reason,
        report::Reason::Exit | report::Reason::ImmediateExit | report::Reason::Abort
    )
}

/// Whether no call was seen at all. Such a report must not read as "no leaks".
pub(crate) fn saw_nothing(report: &Report) -> bool {
    let called = report.coverage.calls.values().any(|&calls| calls > 0);
    !called
        && report.sites.is_empty()
        && report.devices.iter().all(|d| d.memory.peak_live_bytes == 0)
}
