//! Where a trace is written. The file is open only while something is written: the program may count on its descriptors, and close
//! those that it does not know.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
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
    let is_of_this_run = std::fs::metadata(path).is_ok_and(|file| {
        let changed = file.mtime().max(0) as u64 * 1_000_000_000 + file.mtime_nsec() as u64;
        file.is_file() && changed >= run_started
    });
    let path = match is_of_this_run {
        true => {
            let mut name = path.as_os_str().as_bytes().to_vec();
            name.extend_from_slice(format!(".{}", std::process::id()).as_bytes());
            PathBuf::from(std::ffi::OsStr::from_bytes(&name))
        }
        false => path.to_owned(),
    };
    signals::blocked(signals::Block::FileSize, || {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        if !file.metadata()?.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, "it is no file"));
        }
        file.write_all_at(content, 0)
    })?;
    Ok(path)
}

/// Writes a part of the file.
///
/// # Errors
/// What the system says.
pub(super) fn write(path: &Path, content: &[u8], at: u64) -> Result<(), Error> {
    OpenOptions::new().write(true).open(path)?.write_all_at(content, at)
}
