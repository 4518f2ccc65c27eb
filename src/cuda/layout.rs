//! Structures of the driver that cross the doors. They are read as integers, since a program may pass a value that no
//! binding of ours knows; cudarc's bindings of `cuda.h` prove the layout.

use std::mem::offset_of;

use cudarc::driver::sys;

/// A `CUipcMemHandle`: 64 bytes. The driver leaves the last 8 zero and ignores them when it opens the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct IpcHandle(pub [u8; 64]);

/// The head of a `CUmemAllocationProp`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AllocationProp {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`
const LOCATION_DEVICE: u32 = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as u32;

const _: () = {
    assert!(size_of::<IpcHandle>() == size_of::<sys::CUipcMemHandle>());
    let location = offset_of!(sys::CUmemAllocationProp, location);
    assert!(
        offset_of!(AllocationProp, location_type)
            == location + offset_of!(sys::CUmemLocation, type_)
    );
    assert!(
        offset_of!(AllocationProp, location_id) == location + offset_of!(sys::CUmemLocation, id)
    );
};

impl AllocationProp {
    /// The device that the memory lies on; none for host memory.
    pub fn device(&self) -> Option<u32> {
        let on_device = self.location_type == LOCATION_DEVICE;
        on_device.then(|| u32::try_from(self.location_id).unwrap_or(0))
    }
}
