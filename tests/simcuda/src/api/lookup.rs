//! `cuGetProcAddress`: from a name without suffix, a version and a flag to an exported function.
//!
//! The answer is exactly the address that `dlsym` gives for the suffixed name, which is measured
//! for the functions that a memory library hooks (`facts/interposition.md` 2.4). A name that is not
//! found gives `NOT_FOUND` and NULL; NVIDIA's header of 13.0 promises success and NULL instead,
//! earlier ones this.

use std::ffi::c_void;

use crate::abi::{Out, Text};
use crate::api::entries;
use crate::code::{Code, Outcome};
use crate::entry::{Address, DefaultStream, Entry};
use crate::gate::exports;
use crate::settings::{Settings, settings};

const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// `CUdriverProcAddressQueryResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Found = 0,
    SymbolNotFound = 1,
    VersionNotSufficient = 2,
}

exports! {
    [Nothing] cuGetProcAddress as "cuGetProcAddress" 11030 (
        symbol: Text, address: Out<*const c_void>, version: i32, flags: u64
    ) {
        answer(symbol, address, version, flags, Out(std::ptr::null_mut()))
    }
}

/// Both ABIs' body.
pub(crate) fn answer(
    symbol: Text,
    address: Out<*const c_void>,
    version: i32,
    flags: u64,
    status: Out<u32>,
) -> Outcome {
    address.set(std::ptr::null())?;
    let symbol = symbol.get().ok_or(Code::INVALID_VALUE)?;
    match find(settings(), &symbol, version, flags) {
        Ok(found) => {
            status.set_if_wanted(Status::Found as u32);
            address.set(found.0)
        }
        Err(why) => {
            status.set_if_wanted(why as u32);
            Err(Code::NOT_FOUND)
        }
    }
}

/// Finds a function; a driver older than the function does not have it.
pub(crate) fn find(
    settings: &Settings,
    symbol: &str,
    version: i32,
    flags: u64,
) -> Result<Address, Status> {
    let is_missing = |name: &str| settings.missing.iter().any(|missing| missing == name);
    if is_missing(symbol) {
        return Err(Status::SymbolNotFound);
    }
    let exists = |entry: &&Entry| {
        entry.asked == symbol && entry.since <= settings.driver_version && !is_missing(entry.name)
    };
    let known: Vec<&Entry> = entries().filter(exists).collect();
    if known.is_empty() && settings.stubs && symbol.starts_with("cu") {
        return Ok(Address(stub_function as *const c_void));
    }
    if known.is_empty() {
        return Err(Status::SymbolNotFound);
    }
    let per_thread = flags & PER_THREAD_DEFAULT_STREAM != 0;
    let fits = |entry: &&Entry| {
        entry.since <= version && (per_thread || entry.stream == DefaultStream::Legacy)
    };
    let best = known.into_iter().filter(fits).max_by(|a, b| rank(a).cmp(&rank(b)));
    best.map(|entry| Address(entry.address.0)).ok_or(Status::VersionNotSufficient)
}

/// The newest ABI first, and of that the per-thread variant: variants of old functions came with
/// 7000, so the name without `_ptsz` tells the ABI, not the version.
fn rank(entry: &Entry) -> (&str, bool) {
    let abi = entry.name.strip_suffix("_ptsz").unwrap_or(entry.name);
    (abi, entry.stream == DefaultStream::PerThread)
}

/// What `SIMCUDA_STUBS` gives for functions that do not exist here.
extern "C" fn stub_function() -> u32 {
    Code::NOT_SUPPORTED.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(address: Address) -> &'static str {
        entries().find(|entry| entry.address.0 == address.0).map_or("?", |entry| entry.name)
    }

    fn look(symbol: &str, version: i32, flags: u64) -> Result<&'static str, Status> {
        find(&Settings::defaults(), symbol, version, flags).map(name_of)
    }

    #[test]
    fn the_measured_pairs() {
        let pairs = [
            ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
            ("cuMemAlloc", 13000, 0, "cuMemAlloc_v2"),
            ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
            ("cuMemFree", 3020, 0, "cuMemFree_v2"),
            ("cuMemAllocPitch", 3020, 0, "cuMemAllocPitch_v2"),
            ("cuMemGetInfo", 3020, 0, "cuMemGetInfo_v2"),
            ("cuMemAllocManaged", 6000, 0, "cuMemAllocManaged"),
            ("cuMemHostAlloc", 2020, 0, "cuMemHostAlloc"),
            ("cuMemCreate", 10020, 0, "cuMemCreate"),
            ("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"),
            ("cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"),
            ("cuMemFreeAsync", 11020, 0, "cuMemFreeAsync"),
            ("cuMemFreeAsync", 11020, 2, "cuMemFreeAsync_ptsz"),
            ("cuCtxDestroy", 4000, 0, "cuCtxDestroy_v2"),
            ("cuDevicePrimaryCtxReset", 11000, 0, "cuDevicePrimaryCtxReset_v2"),
            ("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2"),
            ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
            ("cuStreamBeginCapture", 10010, 0, "cuStreamBeginCapture_v2"),
            ("cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"),
            ("cuStreamBeginCapture", 10000, 2, "cuStreamBeginCapture_ptsz"),
            ("cuStreamEndCapture", 10000, 0, "cuStreamEndCapture"),
            ("cuStreamQuery", 3020, 2, "cuStreamQuery"),
            ("cuStreamQuery", 7000, 2, "cuStreamQuery_ptsz"),
            ("cuIpcGetMemHandle", 4010, 0, "cuIpcGetMemHandle"),
            ("cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle"),
            ("cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2"),
        ];
        for (symbol, version, flags, name) in pairs {
            assert_eq!(look(symbol, version, flags), Ok(name), "{symbol} {version} {flags}");
        }
        if cfg!(not(feature = "old")) {
            assert_eq!(look("cuGetProcAddress", 12000, 0), Ok("cuGetProcAddress_v2"));
            assert_eq!(look("cuCtxRecordEvent", 12050, 0), Ok("cuCtxRecordEvent"));
        }
    }

    #[test]
    fn what_is_not_there() {
        assert_eq!(look("", 0, 0), Err(Status::SymbolNotFound));
        assert_eq!(look("cuMemAlloc_v2", 12000, 0), Err(Status::SymbolNotFound));
        assert_eq!(look("cuMemAllocAsync", 11010, 0), Err(Status::VersionNotSufficient));
        let old = Settings { driver_version: 12040, ..Settings::defaults() };
        assert_eq!(
            find(&old, "cuCtxRecordEvent", 12050, 0).map(name_of),
            Err(Status::SymbolNotFound)
        );
        let without =
            Settings { missing: vec!["cuMemAlloc".into()], stubs: true, ..Settings::defaults() };
        assert_eq!(find(&without, "cuMemAlloc", 3020, 0).map(name_of), Err(Status::SymbolNotFound));
        assert!(find(&without, "cuNoSuchThing", 3020, 0).is_ok());
        let before = Settings { missing: vec!["cuMemAlloc_v2".into()], ..Settings::defaults() };
        assert_eq!(find(&before, "cuMemAlloc", 3020, 0).map(name_of), Ok("cuMemAlloc"));
        assert!(find(&without, "nvNoSuchThing", 3020, 0).is_err());
    }
}
