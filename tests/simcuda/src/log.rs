//! The call log, and writing lines that several processes append to one file.
//!
//! Each line goes out in a single `write` on a descriptor opened with `O_APPEND`, so lines of
//! different threads and processes do not mix.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::code::Code;
use crate::settings::settings;
use crate::thread;

/// Writes `pid tid name args -> code` if `SIMCUDA_LOG` is set; `args` is asked only then.
pub(crate) fn call(name: &str, code: Code, args: impl FnOnce() -> String) {
    if let Some(path) = &settings().log {
        let line =
            format!("{} {} {name} {} -> {}\n", std::process::id(), thread::id(), args(), code.0);
        append(path, line.as_bytes());
    }
}

/// Appends a whole line to a file; a file that cannot be opened is left alone.
pub(crate) fn append(path: &Path, line: &[u8]) {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return };
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path is a NUL-terminated string that outlives the call.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    if file >= 0 {
        write_all(file, line);
        // SAFETY: the descriptor was opened above and is used nowhere else.
        unsafe { libc::close(file) };
    }
}

/// One `write`; a short or failed one is not tried again, so that lines stay whole.
pub(crate) fn write_all(file: i32, line: &[u8]) {
    // SAFETY: the slice is valid for its length.
    unsafe { libc::write(file, line.as_ptr().cast(), line.len()) };
}
