//! Virtual memory management. None of these calls waits, and none disturbs a capture.

use crate::abi::{AccessDesc, AllocationProp, In, Out};
use crate::code::Code;
use crate::gate::exports;
use crate::heap::PAGE;
use crate::state;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: u32 = 1;

exports! {
    [Init] cuMemAddressReserve as "cuMemAddressReserve" 10020 (
        address: Out<u64>, size: usize, alignment: usize, hint: u64, flags: u64
    ) {
        address.required()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        address.set(state::lock()?.reserve(size as u64, alignment as u64, hint)?)
    }

    [Init] cuMemAddressFree as "cuMemAddressFree" 10020 (address: u64, size: usize) {
        state::lock()?.unreserve(address, size as u64)
    }

    [Init] cuMemCreate as "cuMemCreate" 10020 (
        handle: Out<u64>, size: usize, prop: In<AllocationProp>, flags: u64
    ) {
        handle.required()?;
        let prop = prop.get()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(state::lock()?.create_handle(size as u64, prop)?)
    }

    [Init] cuMemRelease as "cuMemRelease" 10020 (handle: u64) {
        state::lock()?.release_handle(handle)
    }

    [Init] cuMemRetainAllocationHandle as "cuMemRetainAllocationHandle" 11000 (
        handle: Out<u64>, address: u64
    ) {
        handle.required()?;
        handle.set(state::lock()?.retain_handle(address)?)
    }

    [Init] cuMemMap as "cuMemMap" 10020 (
        address: u64, size: usize, offset: usize, handle: u64, flags: u64
    ) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        state::lock()?.map(address, size as u64, offset as u64, handle)
    }

    [Init] cuMemUnmap as "cuMemUnmap" 10020 (address: u64, size: usize) {
        state::lock()?.unmap(address, size as u64)
    }

    [Init] cuMemSetAccess as "cuMemSetAccess" 10020 (
        address: u64, size: usize, wishes: In<AccessDesc>, count: usize
    ) {
        if count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let wishes = wishes.list(count)?;
        state::lock()?.set_access(address, size as u64, &wishes)
    }

    [Init] cuMemExportToShareableHandle as "cuMemExportToShareableHandle" 10020 (
        file: Out<i32>, handle: u64, kind: u32, flags: u64
    ) {
        file.required()?;
        if kind != FILE_DESCRIPTOR || flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        file.set(state::lock()?.export_handle(handle)?)
    }

    /// The descriptor is the value of the pointer.
    [Init] cuMemImportFromShareableHandle as "cuMemImportFromShareableHandle" 10020 (
        handle: Out<u64>, file: usize, kind: u32
    ) {
        handle.required()?;
        if kind != FILE_DESCRIPTOR {
            return Err(Code::INVALID_VALUE);
        }
        handle.set(state::lock()?.import_handle(file as i32)?)
    }

    [Init] cuMemGetAllocationGranularity as "cuMemGetAllocationGranularity" 10020 (
        granularity: Out<usize>, prop: In<AllocationProp>, option: u32
    ) {
        let prop = prop.get()?;
        state::lock()?.location_device(prop.location)?;
        if option > 1 {
            return Err(Code::INVALID_VALUE);
        }
        granularity.set(PAGE as usize)
    }
}
