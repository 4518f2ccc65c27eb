//! The reports that a verb was pointed to: files, or folders of them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cenote::report::{self, Device, Leak, ReadError, Report};

use crate::exit::{Failure, OTHER_VERSION, UNREADABLE};

/// A report and where it is.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) report: Report,
}

/// Reads every report that is named; of a folder, every report in it.
pub(crate) fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let in_folder = load_folder(path)?;
            if in_folder.is_empty() {
                let message = format!("{}: no cenote report in this folder", path.display());
                return Err(Failure::new(UNREADABLE, message).into());
            }
            found.extend(in_folder);
        } else {
            found.push(read(path)?);
        }
    }
    Ok(found)
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
fn load_folder(folder: &Path) -> anyhow::Result<Vec<Found>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("can't list {}", folder.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        match report::read(&path) {
            Err(ReadError::Foreign { .. }) => {}
            _ => found.push(read(&path)?),
        }
    }
    Ok(found)
}

/// Every leak entry with its device.
pub(crate) fn all_leaks(report: &Report) -> impl Iterator<Item = (&Device, &Leak)> {
    report.devices.iter().flat_map(|device| device.leaks.iter().map(move |leak| (device, leak)))
}

/// The suspects among them.
pub(crate) fn suspects(report: &Report) -> impl Iterator<Item = (&Device, &Leak)> {
    all_leaks(report).filter(|(_, leak)| leak.class.is_suspect())
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
