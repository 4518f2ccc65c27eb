//! Devices.

use std::ffi::c_char;

use crate::abi::{Out, Uuid};
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::settings::settings;
use crate::state;

exports! {
    [Init] cuDeviceGetCount as "cuDeviceGetCount" 2000 (count: Out<i32>) {
        count.set(state::lock()?.devices.len() as i32)
    }

    [Init] cuDeviceGet as "cuDeviceGet" 2000 (device: Out<i32>, ordinal: i32) {
        state::lock()?.device(ordinal)?;
        device.set(ordinal)
    }

    [Init] cuDeviceGetName as "cuDeviceGetName" 2000 (name: *mut c_char, len: i32, device: i32) {
        state::lock()?.device(device)?;
        give_text("simcuda device", name, len)
    }

    [Init] cuDeviceGetUuid as "cuDeviceGetUuid" 9020 (uuid: Out<Uuid>, device: i32) {
        uuid.set(uuid_of(state::lock()?.device(device)?))
    }

    [Init] cuDeviceGetUuid_v2 as "cuDeviceGetUuid" 11040 (uuid: Out<Uuid>, device: i32) {
        uuid.set(uuid_of(state::lock()?.device(device)?))
    }

    [Init] cuDeviceTotalMem_v2 as "cuDeviceTotalMem" 3020 (bytes: Out<usize>, device: i32) {
        state::lock()?.device(device)?;
        bytes.set(settings().capacity as usize)
    }

    [Init] cuDeviceGetAttribute as "cuDeviceGetAttribute" 2000 (
        value: Out<i32>, attribute: u32, device: i32
    ) {
        let device = state::lock()?.device(device)?;
        value.set(attribute_of(attribute, device))
    }

    [Init] cuDeviceGetPCIBusId as "cuDeviceGetPCIBusId" 4010 (
        text: *mut c_char, len: i32, device: i32
    ) {
        let device = state::lock()?.device(device)?;
        give_text(&format!("0000:{:02x}:00.0", bus_of(device)), text, len)
    }

    [Init] cuDeviceCanAccessPeer as "cuDeviceCanAccessPeer" 4000 (
        can: Out<i32>, device: i32, peer: i32
    ) {
        let machine = state::lock()?;
        can.set(i32::from(machine.device(device)? != machine.device(peer)?))
    }
}

fn uuid_of(device: usize) -> Uuid {
    let mut bytes = *b"simcuda-device--";
    bytes[15] = b'0' + device as u8;
    Uuid(bytes)
}

fn bus_of(device: usize) -> i32 {
    1 + device as i32
}

/// The attributes that memory libraries ask for; others are 0.
fn attribute_of(attribute: u32, device: usize) -> i32 {
    match attribute {
        1 => 1024, // threads a block
        10 => 32,  // warp size
        14 => 512, // texture alignment
        16 => 132, // multiprocessors
        33 => bus_of(device),
        75 => 9,                                       // compute capability, major
        41 | 83 | 89 => 1, // unified addressing, managed memory, concurrent managed access
        102 | 115 => 1,    // virtual memory management, memory pools
        103 => i32::from(settings().shared.is_some()), // VMM memory as file descriptors
        _ => 0,
    }
}

fn give_text(text: &str, out: *mut c_char, len: i32) -> Outcome {
    let room = usize::try_from(len).ok().filter(|room| *room > 0 && !out.is_null());
    let room = room.ok_or(Code::INVALID_VALUE)?;
    let shown = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: abi I1, `out` has `len` bytes, and the text with its NUL is no longer.
    unsafe { std::ptr::copy_nonoverlapping(shown.as_ptr(), out.cast(), shown.len()) };
    // SAFETY: as above; this is the byte behind the text.
    unsafe { out.add(shown.len()).write(0) };
    Ok(())
}
