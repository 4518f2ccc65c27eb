//! Structures of the driver that cross the doors. They are read as integers, since a program may pass a value that no
//! binding of ours knows; cudarc's bindings of `cuda.h` prove the layout.

use std::mem::offset_of;

use cudarc::driver::sys;

/// A `CUipcMemHandle`: 64 bytes. The driver leaves the last 8 zero and ignores them when it opens the handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct IpcHandle(pub [u8; 64]);

/// A `CUmemAllocationProp`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AllocationProp {
    kind: u32,
    handle_types: u32,
    location_type: u32,
    location_id: i32,
    win32: usize,
    flags: [u8; 8],
}

/// A `CUmemAccessDesc`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct AccessDesc {
    location_type: u32,
    location_id: i32,
    flags: u32,
}

/// `CU_MEM_ALLOCATION_TYPE_PINNED`
const PINNED: u32 = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED as u32;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`: how memory goes to another process.
pub const FILE_DESCRIPTOR: u32 =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.0;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`
const READ_WRITE: u32 = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE as u32;
/// `CU_MEM_LOCATION_TYPE_DEVICE`
const LOCATION_DEVICE: u32 = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as u32;

const _: () = {
    assert!(size_of::<IpcHandle>() == size_of::<sys::CUipcMemHandle>());
    assert!(size_of::<AllocationProp>() == size_of::<sys::CUmemAllocationProp>());
    assert!(size_of::<AccessDesc>() == size_of::<sys::CUmemAccessDesc>());
    assert!(offset_of!(AccessDesc, flags) == offset_of!(sys::CUmemAccessDesc, flags));
    assert!(offset_of!(AllocationProp, flags) == offset_of!(sys::CUmemAllocationProp, allocFlags));
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
    /// Memory of a device that is shared with nobody.
    pub fn on_device(device: u32) -> Self {
        AllocationProp {
            kind: PINNED,
            handle_types: 0,
            location_type: LOCATION_DEVICE,
            location_id: device as i32,
            win32: 0,
            flags: [0; 8],
        }
    }

    /// The same, which may be exported as a file descriptor.
    pub fn exportable(self) -> Self {
        AllocationProp { handle_types: FILE_DESCRIPTOR, ..self }
    }

    /// The device that the memory lies on; none for host memory.
    pub fn device(&self) -> Option<u32> {
        let on_device = self.location_type == LOCATION_DEVICE;
        on_device.then(|| u32::try_from(self.location_id).unwrap_or(0))
    }
}

impl AccessDesc {
    /// A device may read and write.
    pub fn read_write(device: u32) -> Self {
        AccessDesc { location_type: LOCATION_DEVICE, location_id: device as i32, flags: READ_WRITE }
    }
}
