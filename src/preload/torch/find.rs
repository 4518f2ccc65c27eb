//! Where PyTorch is, if this process has loaded it.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A PyTorch that is loaded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Torch {
    /// Its folder, the one that has `lib` and `include` in it.
    pub(super) folder: PathBuf,
    /// As in `torch.__version__`.
    pub(super) version: String,
    /// 211 for 2.11.
    pub(super) number: u32,
}

/// The library whose allocator is replaced.
const LIBRARY: &str = "libc10_cuda.so";

struct Search {
    /// Libraries that were ever loaded.
    loaded: u64,
    found: Option<PathBuf>,
    /// Look no further than the number.
    only_count: bool,
}

extern "C" fn each(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and what `walk` passed, which nobody else refers to meanwhile.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    search.loaded = info.dlpi_adds;
    if search.only_count {
        return 1;
    }
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names end in a zero byte, and live during the call.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()));
    if path.file_name() == Some(OsStr::new(LIBRARY)) {
        search.found = Some(path.to_owned());
        return 1;
    }
    0
}

fn walk(only_count: bool) -> Search {
    let mut search = Search { loaded: 0, found: None, only_count };
    // SAFETY: `each` returns, and `search` lives longer than the call.
    unsafe { libc::dl_iterate_phdr(Some(each), std::ptr::from_mut(&mut search).cast()) };
    search
}

/// How many libraries this process ever loaded: a number that changes when a new one may be there.
pub(super) fn libraries_loaded() -> u64 {
    walk(true).loaded
}

/// PyTorch, if its CUDA part is loaded.
pub(super) fn torch() -> Option<Torch> {
    let folder = walk(false).found?.parent()?.parent()?.to_owned();
    let text = std::fs::read_to_string(folder.join("version.py")).ok()?;
    let (version, number) = version(&text)?;
    Some(Torch { folder, version, number })
}

/// The version that PyTorch's `version.py` names, and its number.
fn version(text: &str) -> Option<(String, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
    let version = line.trim().trim_matches(['\'', '"']);
    let mut parts = version.split('.').map(str::parse::<u32>);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    Some((version.to_owned(), major * 100 + minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_pytorch_writes_them() {
        let text = "from typing import Optional\n\n__all__ = ['__version__']\n__version__ = '2.11.0+cu130'\ndebug = False\n";
        assert_eq!(version(text), Some(("2.11.0+cu130".to_owned(), 211)));
        assert_eq!(
            version("__version__ = \"2.6.0a0+git1\"\n"),
            Some(("2.6.0a0+git1".to_owned(), 206))
        );
        assert_eq!(version("nothing"), None);
    }

    #[test]
    fn a_program_without_pytorch_has_none() {
        assert!(libraries_loaded() > 0);
        assert_eq!(torch(), None);
    }
}
