//! One record for each exported function: its names, its address, and how often it was called.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which default stream a function means by stream 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    Legacy,
    PerThread,
}

/// The address of an exported function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: it is the address of code, which is never written; threads only compare and copy it.
unsafe impl Sync for Address {}

/// An exported function.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name that `dlsym` knows.
    pub(crate) name: &'static str,
    /// The name that `cuGetProcAddress` knows, without ABI suffixes.
    pub(crate) asked: &'static str,
    /// The CUDA version that brought this ABI.
    pub(crate) since: i32,
    pub(crate) stream: DefaultStream,
    pub(crate) address: Address,
    calls: AtomicU64,
}

impl Entry {
    pub(crate) const fn new(
        name: &'static str,
        asked: &'static str,
        since: i32,
        address: *const c_void,
    ) -> Entry {
        let per_thread = ends_with_ptsz(name.as_bytes());
        let stream = if per_thread { DefaultStream::PerThread } else { DefaultStream::Legacy };
        Entry { name, asked, since, stream, address: Address(address), calls: AtomicU64::new(0) }
    }

    /// Counts a call; gives its number, from 1.
    pub(crate) fn count(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

const fn ends_with_ptsz(name: &[u8]) -> bool {
    let suffix = b"_ptsz";
    if name.len() < suffix.len() {
        return false;
    }
    let mut i = 0;
    while i < suffix.len() {
        if name[name.len() - suffix.len() + i] != suffix[i] {
            return false;
        }
        i += 1;
    }
    true
}
