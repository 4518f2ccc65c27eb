//! Putting a report into its file: whole or not at all, and never over that of another process of the same run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Report;

/// File times come from a clock that ticks every few milliseconds.
const CLOCK_TICK_NS: u64 = 10_000_000;
/// Names that are tried before the report is given up.
const NAMES: u32 = 1000;
/// Start of the name of a folder that `cenote run` makes for its job.
const RUN_FOLDER: &str = "cenote-run-";

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The system refused.
    #[error("can't write {path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Every name is taken.
    #[error(
        "can't write {0}: it and a thousand names like it were written by other processes of this run; \
             put %p into CENOTE_OUTPUT"
    )]
    Taken(PathBuf),
}

/// Writes the report to `path` and returns where it went. Folders are made; the file appears under its name only when it
/// is whole, readable by its owner only.
///
/// A file that is older than `run_started_unix_ns` is replaced. A younger one belongs to another process of the run: then
/// the report goes to `STEM.PID.EXT`, then `STEM.PID.1.EXT` and so on. `earlier` is where this process has written before;
/// its next reports replace that file.
///
/// # Errors
/// If the file can't be made or no name is free.
pub fn write(
    report: &Report,
    path: &Path,
    run_started_unix_ns: u64,
    earlier: Option<&Path>,
) -> Result<PathBuf, WriteError> {
    let target = earlier.unwrap_or(path);
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| WriteError::Io { path, source }
    };
    if let Some(folder) = target.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
    }
    let draft = with_suffix(target, &format!(".tmp.{}", std::process::id()));
    let written = fill(&draft, report).map_err(io_error(&draft)).and_then(|()| match earlier {
        Some(earlier) => {
            fs::rename(&draft, earlier).map_err(io_error(earlier))?;
            Ok(earlier.to_owned())
        }
        None => publish(&draft, path, report.process.pid, run_started_unix_ns),
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// When the run that this process belongs to began, from the name of the folder that `cenote run` handed down in
/// `CENOTE_RUN_DIR`.
pub fn run_started_unix_ns(run_folder: &Path) -> Option<u64> {
    let name = run_folder.file_name()?.to_str()?.strip_prefix(RUN_FOLDER)?;
    name.split('-').next()?.parse().ok()
}

/// The start of such a folder's name; something unique follows it.
pub fn run_folder_prefix(started_unix_ns: u64) -> String {
    format!("{RUN_FOLDER}{started_unix_ns}-")
}

fn fill(draft: &Path, report: &Report) -> io::Result<()> {
    // What a process with our id has left behind when it was killed.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let file: File = options.write(true).create_new(true).mode(0o600).open(draft)?;
    let mut writer = BufWriter::with_capacity(1 << 16, file);
    serde_json::to_writer(&mut writer, report).map_err(io::Error::from)?;
    writer.write_all(b"\n")?;
    writer.flush()
}

/// Gives the draft the first name that is free or stale.
fn publish(draft: &Path, path: &Path, pid: u32, since_unix_ns: u64) -> Result<PathBuf, WriteError> {
    for attempt in 0..NAMES {
        let name = match attempt {
            0 => path.to_owned(),
            1 => numbered(path, &format!(".{pid}")),
            n => numbered(path, &format!(".{pid}.{}", n - 1)),
        };
        match claim(draft, &name, since_unix_ns) {
            Ok(true) => return Ok(name),
            Ok(false) => {}
            Err(source) => return Err(WriteError::Io { path: name, source }),
        }
    }
    Err(WriteError::Taken(path.to_owned()))
}

/// Moves the draft to `name`; false where another process of the run has that name. A link fails where a rename would
/// replace, so of two processes that find the name free only one gets it.
fn claim(draft: &Path, name: &Path, since_unix_ns: u64) -> io::Result<bool> {
    if name.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    match fs::hard_link(draft, name) {
        Ok(()) => fs::remove_file(draft).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if is_younger(name, since_unix_ns) || !set_aside(draft, name, since_unix_ns) {
                return Ok(false);
            }
            match fs::hard_link(draft, name) {
                Ok(()) => fs::remove_file(draft).map(|()| true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        }
        // File systems without links; what is lost there is only the answer to a race.
        Err(_) if is_younger(name, since_unix_ns) => Ok(false),
        Err(_) => fs::rename(draft, name).map(|()| true),
    }
}

/// Takes a stale file away from its name. Another process may put its report there in the meantime: then that is put back,
/// and the answer is false.
fn set_aside(draft: &Path, name: &Path, since_unix_ns: u64) -> bool {
    let aside = with_suffix(draft, ".old");
    if fs::rename(name, &aside).is_err() {
        return true;
    }
    let stale = !is_younger(&aside, since_unix_ns);
    if !stale {
        let _ = fs::hard_link(&aside, name);
    }
    let _ = fs::remove_file(&aside);
    stale
}

fn is_younger(path: &Path, since_unix_ns: u64) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let seconds = u64::try_from(metadata.mtime()).unwrap_or(0);
    let changed =
        seconds.saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec() as u64);
    changed.saturating_add(CLOCK_TICK_NS) >= since_unix_ns
}

/// `a/report.json` with `.7` is `a/report.7.json`.
fn numbered(path: &Path, number: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(number);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}
