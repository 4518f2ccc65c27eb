//! The 32-bit ABI of CUDA 2: addresses and sizes of four bytes, behind the unsuffixed names.
//!
//! Nothing calls it any more, and a library that answers a request for it with a function of
//! today's ABI corrupts the caller's stack. A call is refused, and counted as one of the old ABI.

use crate::abi::Out;
use crate::code::Code;
use crate::gate::exports;

exports! {
    [Init] cuMemAlloc as "cuMemAlloc" 2000 (address: Out<u32>, bytesize: u32) {
        Err(Code::NOT_SUPPORTED)
    }

    [Init] cuMemFree as "cuMemFree" 2000 (address: u32) {
        Err(Code::NOT_SUPPORTED)
    }

    [Init] cuMemGetInfo as "cuMemGetInfo" 2000 (free: Out<u32>, total: Out<u32>) {
        Err(Code::NOT_SUPPORTED)
    }
}

/// How often a function of the old ABI was called.
pub(crate) fn calls() -> u64 {
    ENTRIES.iter().map(|entry| entry.calls()).sum()
}
