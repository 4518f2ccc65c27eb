//! Where a trace is written. The file is open only while something is written: the program may count on its descriptors, and close
//! those that it does not know.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::super::environment::{self, Variables};
use super::super::signals;

/// `trace:FILE` with its placeholders filled in, absolute.
pub(super) fn place(template: &str) -> PathBuf {
    environment::placed(template)
}

/// Makes the file, with so much in it. What another process of this run has written stays: then the name gets this process' number.
///
/// # Errors
/// What the system says.
pub(super) fn create(path: &Path, content: &[u8]) -> Result<PathBuf, Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let run_started = environment::run_started_unix_ns(&Variables::now());
    let changed = std::fs::metadata(path)
        .ok()
        .map(|file| file.mtime().max(0) as u64 * 1_000_000_000 + file.mtime_nsec().max(0) as u64);
    let is_mine = |changed: u64| changed < run_started;
    signals::blocked(signals::Block::FileSize, || {
        match fill(path, content, changed.is_none_or(is_mine), changed.is_none()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            answer => return answer.map(|()| path.to_owned()),
        }
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        fill(Path::new(&name), content, true, false).map(|()| PathBuf::from(name))
    })
}

/// Makes a file with so much in it. One that is not to be replaced, or one that comes into being meanwhile, already exists.
fn fill(path: &Path, content: &[u8], may_replace: bool, is_new: bool) -> Result<(), Error> {
    if !may_replace {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let mut options = OpenOptions::new();
    options.write(true).truncate(!is_new).create(true).create_new(is_new).mode(0o600);
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    file.write_all_at(content, 0)
}

/// Writes a part of the file.
///
/// # Errors
/// What the system says.
pub(super) fn write(path: &Path, content: &[u8], at: u64) -> Result<(), Error> {
    OpenOptions::new().write(true).open(path)?.write_all_at(content, at)
}
