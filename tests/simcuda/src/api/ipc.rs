//! Memory between processes.

use crate::abi::{IpcHandle, Out, OutAddress};
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::state;

const LAZY_ENABLE_PEER_ACCESS: u32 = 1;

exports! {
    [Init] cuIpcGetMemHandle as "cuIpcGetMemHandle" 4010 (handle: *mut IpcHandle, address: u64) {
        Out(handle).set(state::lock()?.export(address)?.to_handle())
    }

    [Init] cuIpcOpenMemHandle as "cuIpcOpenMemHandle" 4010 (
        address: OutAddress, handle: IpcHandle, flags: u32
    ) {
        open(address, &handle, flags)
    }

    [Init] cuIpcOpenMemHandle_v2 as "cuIpcOpenMemHandle" 11000 (
        address: OutAddress, handle: IpcHandle, flags: u32
    ) {
        open(address, &handle, flags)
    }

    [Init] cuIpcCloseMemHandle as "cuIpcCloseMemHandle" 4010 (address: u64) {
        state::lock()?.close_import(address)
    }
}

fn open(address: OutAddress, handle: &IpcHandle, flags: u32) -> Outcome {
    address.0.required()?;
    if flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let mut machine = state::lock()?;
    let context = machine.contexts.current()?;
    address.0.set(machine.import(context, handle)?)
}
