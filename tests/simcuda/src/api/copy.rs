//! Copies and fills.

use std::ffi::c_void;

use crate::abi::read_host;
use crate::capture::Hazard;
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::exports;
use crate::operation::Operation;
use crate::state;

exports! {
    [Init] cuMemcpyHtoD_v2 as "cuMemcpyHtoD" 3020 (to: u64, from: *const c_void, len: usize) {
        run_and_wait(Operation::Upload { to, bytes: read_host(from, len)? }, "cuMemcpyHtoD")
    }

    [Init] cuMemcpyDtoH_v2 as "cuMemcpyDtoH" 3020 (to: *mut c_void, from: u64, len: usize) {
        run_and_wait(download(to, from, len)?, "cuMemcpyDtoH")
    }

    /// Ordered in the legacy stream; the host does not wait.
    [Init] cuMemcpyDtoD_v2 as "cuMemcpyDtoD" 3020 (to: u64, from: u64, len: usize) {
        run(Operation::Copy { from, to, len: len as u64 }, 0, "cuMemcpyDtoD")
    }

    /// The source is read at once, as the driver does with pageable memory.
    [Init] cuMemcpyHtoDAsync_v2 as "cuMemcpyHtoDAsync" 3020 (
        to: u64, from: *const c_void, len: usize, stream: u64
    ) {
        run(Operation::Upload { to, bytes: read_host(from, len)? }, stream, "cuMemcpyHtoDAsync")
    }

    /// Waits unless the target is pinned, as the driver does.
    [Init] cuMemcpyDtoHAsync_v2 as "cuMemcpyDtoHAsync" 3020 (
        to: *mut c_void, from: u64, len: usize, stream: u64
    ) {
        let operation = download(to, from, len)?;
        let mut machine = state::lock_for_launch()?;
        let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
        let end = machine.enqueue(stream, operation, "cuMemcpyDtoHAsync")?;
        match end {
            Some(end) if machine.host.at(to as u64).is_none() => machine.wait_until(end).map(drop),
            _ => Ok(()),
        }
    }

    [Init] cuMemcpyDtoDAsync_v2 as "cuMemcpyDtoDAsync" 3020 (
        to: u64, from: u64, len: usize, stream: u64
    ) {
        run(Operation::Copy { from, to, len: len as u64 }, stream, "cuMemcpyDtoDAsync")
    }

    /// Ordered in the legacy stream; the host does not wait.
    [Init] cuMemsetD8_v2 as "cuMemsetD8" 3020 (to: u64, value: u8, len: usize) {
        run(Operation::Fill { to, len: len as u64, value }, 0, "cuMemsetD8")
    }

    [Init] cuMemsetD8Async as "cuMemsetD8Async" 3020 (to: u64, value: u8, len: usize, stream: u64) {
        run(Operation::Fill { to, len: len as u64, value }, stream, "cuMemsetD8Async")
    }
}

fn download(to: *mut c_void, from: u64, len: usize) -> Outcome<Operation> {
    if to.is_null() {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(Operation::Download { from, len: len as u64, host: to as u64 })
    }
}

fn run(operation: Operation, stream: u64, call: &str) -> Outcome {
    let mut machine = state::lock_for_launch()?;
    let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
    machine.enqueue(stream, operation, call).map(drop)
}

fn run_and_wait(operation: Operation, call: &str) -> Outcome {
    let mut machine = state::lock_for_launch()?;
    machine.respect_captures(Hazard::Unsafe, call)?;
    let stream = machine.stream_named(0, DefaultStream::Legacy)?;
    match machine.enqueue(stream, operation, call)? {
        Some(end) => machine.wait_until(end).map(drop),
        None => Ok(()),
    }
}
