//! Making, opening and removing page files.
#![expect(unsafe_code, reason = "maps files")]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Acquire;

use super::{MAGIC, PageLayout};

/// Why a page could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No page of this version.
    #[error(
        "{0}: not a live page of this version of cenote; read it with the version that wrote it"
    )]
    Foreign(PathBuf),
}

/// A mapped page and its file.
#[derive(Debug)]
pub struct PageFile {
    /// Where the file is; none for a page without a file.
    pub path: Option<PathBuf>,
    /// The page.
    pub page: &'static PageLayout,
    /// Carries the owner's lock, which the kernel drops at exit, exec and SIGKILL and does not hand to a forked child.
    file: Option<File>,
}

/// The folder of live pages: `configured` (`CENOTE_RUNTIME_DIR`), else `XDG_RUNTIME_DIR/cenote`, else `cenote-UID` in `/dev/shm`,
/// else in the folder for temporary files. In memory where that can be: the numbers of a running job must not wait for a disk.
pub fn runtime_dir(configured: Option<OsString>, xdg: Option<OsString>) -> PathBuf {
    let set = |value: Option<OsString>| value.filter(|v| !v.is_empty());
    if let Some(folder) = set(configured) {
        return folder.into();
    }
    if let Some(folder) = set(xdg) {
        return PathBuf::from(folder).join("cenote");
    }
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("cenote-{}", effective_user()))
}

fn effective_user() -> u32 {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() }
}

/// Makes the page of this process in `folder`, filled with zeros. `started_unix_ns` makes the name unique: an exec keeps
/// the process id.
///
/// # Errors
/// If the folder is not ours alone, or the file can't be made or mapped.
pub fn create(folder: &Path, pid: u32, started_unix_ns: u64) -> Result<PageFile, PageError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| PageError::Io { path, source }
    };
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(io_error(folder))?;
    // In a folder for everybody, somebody else may have been here first.
    let found = fs::symlink_metadata(folder).map_err(io_error(folder))?;
    if !found.is_dir() || found.uid() != effective_user() || found.mode() & 0o022 != 0 {
        let refusal = io::Error::other("not a folder that only this user can write to");
        return Err(io_error(folder)(refusal));
    }
    let path = folder.join(format!("{pid}-{started_unix_ns}.page"));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path).map_err(io_error(&path))?;
    let filled = above_standard_streams(file).and_then(|file| {
        reserve(&file)?;
        lock(&file, libc::F_SETLK)?;
        Ok((map(Some(&file))?, file))
    });
    match filled {
        Ok((page, file)) => Ok(PageFile { path: Some(path), page, file: Some(file) }),
        Err(error) => {
            let _ = fs::remove_file(&path);
            Err(io_error(&path)(error))
        }
    }
}

impl PageFile {
    /// Removes the file. The mapping stays.
    pub fn remove(&self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }

    /// Whether the process that made the page still runs the same program. Ask this of a page of another process. Its lock says
    /// so, also from another container; a program that closed all of its descriptors still has the page mapped.
    pub fn owner_is_alive(&self) -> bool {
        let (Some(file), Some(path)) = (&self.file, &self.path) else { return false };
        let is_locked = lock(file, libc::F_GETLK).is_ok_and(|kind| kind != libc::F_UNLCK);
        is_locked || is_mapped(path, self.page.pid.load(Acquire))
    }

    /// A page without a file, for a process that could make none: its numbers do not survive it.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn anonymous() -> io::Result<PageFile> {
        Ok(PageFile { path: None, page: map(None)?, file: None })
    }
}

/// Opens the page of another process.
///
/// # Errors
/// If the file can't be opened or is no page.
pub fn open(path: &Path) -> Result<PageFile, PageError> {
    let io_error = |source| PageError::Io { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io_error)?;
    if file.metadata().map_err(io_error)?.len() != size_of::<PageLayout>() as u64 {
        return Err(PageError::Foreign(path.to_owned()));
    }
    let page = map(Some(&file)).map_err(io_error)?;
    if page.magic.load(Acquire) != MAGIC {
        return Err(PageError::Foreign(path.to_owned()));
    }
    Ok(PageFile { path: Some(path.to_owned()), page, file: Some(file) })
}

/// Maps a file of the page's size, or zeroed memory.
fn map(file: Option<&File>) -> io::Result<&'static PageLayout> {
    let (flags, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address that the system chooses; it overlaps nothing of ours.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), size_of::<PageLayout>(), protection, flags, fd, 0)
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: (1) the mapping has the size and, being page-aligned, the alignment of `PageLayout`; (2) it is never unmapped,
    // so 'static holds; (3) `PageLayout` is made of atomics, for which every bit pattern is valid and shared writes by
    // other processes are no data race.
    Ok(unsafe { &*at.cast::<PageLayout>() })
}

/// The same file under a number above the standard streams: a program that was started without them writes to whatever has theirs.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: plain call on an open descriptor.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is fresh and nobody else's.
        descriptor => Ok(unsafe { File::from_raw_fd(descriptor) }),
    }
}

/// Whether a process has a file mapped.
fn is_mapped(path: &Path, pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    maps.lines().any(|line| line.ends_with(&*path.to_string_lossy()))
}

/// Gives the file its size with the disk space to go: writing to a mapped hole on a full disk would kill the job.
fn reserve(file: &File) -> io::Result<()> {
    let length = size_of::<PageLayout>() as libc::off_t;
    // SAFETY: plain call on an open descriptor.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Takes the owner's lock (`F_SETLK`), or asks for the kind of lock that somebody else holds (`F_GETLK`).
fn lock(file: &File, command: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: all-zero is a valid `flock`: the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: the descriptor is open and `lock` outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(libc::c_int::from(lock.l_type)),
    }
}
