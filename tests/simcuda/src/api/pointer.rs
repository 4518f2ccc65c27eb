//! Questions about addresses.

use std::ffi::c_void;

use crate::abi::Out;
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::memory::Kind;
use crate::state::{self, Sim};

/// What the driver knows about the memory at an address.
struct About {
    base: u64,
    size: u64,
    buffer: u64,
    /// 0 where there is none: VMM memory belongs to no context.
    context: u64,
    device: Option<usize>,
    memory_type: u32,
    managed: bool,
    ipc: bool,
}

const HOST: u32 = 1;
const DEVICE: u32 = 2;

exports! {
    [Init] cuMemGetAddressRange_v2 as "cuMemGetAddressRange" 3020 (
        base: Out<u64>, size: Out<usize>, address: u64
    ) {
        let machine = state::lock()?;
        machine.contexts.current()?;
        let found = about(&machine, address).filter(|found| found.memory_type == DEVICE);
        let found = found.ok_or(Code::NOT_FOUND)?;
        base.set_if_wanted(found.base);
        size.set_if_wanted(found.size as usize);
        Ok(())
    }

    [Init] cuPointerGetAttribute as "cuPointerGetAttribute" 4000 (
        data: *mut c_void, attribute: u32, address: u64
    ) {
        let machine = state::lock()?;
        let found = about(&machine, address).ok_or(Code::INVALID_VALUE)?;
        answer(&found, attribute, data)
    }
}

fn about(machine: &Sim, address: u64) -> Option<About> {
    if let Some(found) = machine.memory.at(address) {
        return Some(About {
            base: found.base,
            size: found.size,
            buffer: found.buffer,
            context: found.context,
            device: Some(found.device),
            memory_type: DEVICE,
            managed: found.kind == Kind::Managed,
            ipc: found.kind == Kind::Linear,
        });
    }
    if let Some(mapping) = machine.vmm.at(address) {
        let device = machine.vmm.handle(mapping.handle)?.device;
        let memory_type = if device.is_some() { DEVICE } else { HOST };
        let (base, size, buffer) = (mapping.base, mapping.size, mapping.buffer);
        return Some(About {
            base,
            size,
            buffer,
            context: 0,
            device,
            memory_type,
            managed: false,
            ipc: false,
        });
    }
    let pinned = machine.host.at(address)?;
    Some(About {
        base: pinned.range.base,
        size: pinned.range.len,
        buffer: pinned.buffer,
        context: pinned.context,
        device: None,
        memory_type: HOST,
        managed: false,
        ipc: false,
    })
}

/// Attributes by number, as in `CUpointer_attribute`; each has its own type.
fn answer(found: &About, attribute: u32, data: *mut c_void) -> Outcome {
    match attribute {
        1 => Out(data.cast::<u64>()).set(found.context),
        2 => Out(data.cast::<u32>()).set(found.memory_type),
        7 => Out(data.cast::<u64>()).set(found.buffer),
        8 => Out(data.cast::<u8>()).set(u8::from(found.managed)),
        9 => Out(data.cast::<i32>()).set(found.device.map_or(-2, |device| device as i32)),
        10 => Out(data.cast::<u8>()).set(u8::from(found.ipc)),
        11 => Out(data.cast::<u64>()).set(found.base),
        12 => Out(data.cast::<u64>()).set(found.size),
        13 => Out(data.cast::<u8>()).set(1),
        _ => Err(Code::NOT_SUPPORTED),
    }
}
