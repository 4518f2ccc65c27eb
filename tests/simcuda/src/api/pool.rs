//! Stream-ordered memory and pools.

use std::ffi::c_void;

use crate::abi::{In, Location, Out, OutAddress, PoolProps};
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::state;

exports! {
    [Init] cuMemAllocAsync as "cuMemAllocAsync" 11020 (
        address: OutAddress, bytesize: usize, stream: u64
    ) {
        allocate(address, bytesize, None, stream, DefaultStream::Legacy)
    }

    [Init] cuMemAllocAsync_ptsz as "cuMemAllocAsync" 11020 (
        address: OutAddress, bytesize: usize, stream: u64
    ) {
        allocate(address, bytesize, None, stream, DefaultStream::PerThread)
    }

    [Init] cuMemAllocFromPoolAsync as "cuMemAllocFromPoolAsync" 11020 (
        address: OutAddress, bytesize: usize, pool: u64, stream: u64
    ) {
        allocate(address, bytesize, Some(pool), stream, DefaultStream::Legacy)
    }

    [Init] cuMemAllocFromPoolAsync_ptsz as "cuMemAllocFromPoolAsync" 11020 (
        address: OutAddress, bytesize: usize, pool: u64, stream: u64
    ) {
        allocate(address, bytesize, Some(pool), stream, DefaultStream::PerThread)
    }

    [Init] cuMemFreeAsync as "cuMemFreeAsync" 11020 (address: u64, stream: u64) {
        free(address, stream, DefaultStream::Legacy)
    }

    [Init] cuMemFreeAsync_ptsz as "cuMemFreeAsync" 11020 (address: u64, stream: u64) {
        free(address, stream, DefaultStream::PerThread)
    }

    [Init] cuDeviceGetDefaultMemPool as "cuDeviceGetDefaultMemPool" 11020 (
        pool: Out<u64>, device: i32
    ) {
        let mut machine = state::lock()?;
        let device = machine.device(device)?;
        pool.set(machine.pools.default_of(device))
    }

    [Init] cuMemPoolCreate as "cuMemPoolCreate" 11020 (pool: Out<u64>, props: In<PoolProps>) {
        let props = props.get()?;
        pool.required()?;
        let mut machine = state::lock()?;
        if props.kind != 1 || props.location.kind != Location::DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        let device = machine.device(props.location.id)?;
        pool.set(machine.pools.create(device))
    }

    [Init] cuMemPoolDestroy as "cuMemPoolDestroy" 11020 (pool: u64) {
        state::lock()?.pools.destroy(pool)
    }

    /// Accepted and without effect: pools keep nothing here.
    [Init] cuMemPoolSetAttribute as "cuMemPoolSetAttribute" 11020 (
        pool: u64, attribute: u32, value: *mut c_void
    ) {
        if value.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        state::lock()?.pools.device_of(pool).map(drop)
    }

    /// Without effect: pools keep nothing here.
    [Init] cuMemPoolTrimTo as "cuMemPoolTrimTo" 11020 (pool: u64, keep: usize) {
        state::lock()?.pools.device_of(pool).map(drop)
    }
}

fn allocate(
    address: OutAddress,
    size: usize,
    pool: Option<u64>,
    stream: u64,
    default: DefaultStream,
) -> Outcome {
    address.0.required()?;
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    let context = machine.timeline.stream(stream).ok_or(Code::INVALID_HANDLE)?.context;
    let device = match pool {
        Some(pool) => machine.pools.device_of(pool)?,
        None => machine.contexts.device_of(context)?,
    };
    let mut answer = machine.allocate_in_order(context, device, size as u64, stream);
    if answer == Err(Code::OUT_OF_MEMORY)
        && let Some(ready) = machine.pools.last_ready()
    {
        machine = machine.wait_until(ready)?;
        answer = machine.allocate_in_order(context, device, size as u64, stream);
    }
    address.0.set(answer?)
}

fn free(address: u64, stream: u64, default: DefaultStream) -> Outcome {
    if address == 0 {
        return Ok(());
    }
    let mut machine = state::lock()?;
    let stream = machine.stream_named(stream, default)?;
    machine.free_in_order(address, stream)
}
