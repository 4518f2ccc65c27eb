//! The driver's C types as this library takes them: handles and device addresses are integers,
//! output pointers are [`Out`], structures are `repr(C)`.
//!
//! # Invariants
//! 1. A pointer argument is what the C contract of the function says: NULL, or valid for the
//!    access named in the driver's header while the call runs. The *caller* of the exported
//!    function establishes this; nothing here can check it.

use std::ffi::{CStr, c_char, c_void};
use std::fmt;

use crate::code::{Code, Outcome};

/// A pointer through which the driver gives a value back.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Out<T>(pub *mut T);

impl<T: Copy> Out<T> {
    /// Writes the value; NULL is an invalid value, as in the driver.
    pub(crate) fn set(self, value: T) -> Outcome {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        self.set_if_wanted(value);
        Ok(())
    }

    /// Writes the value where the driver lets the caller pass NULL.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: I1, the pointer is not NULL and so valid for a write of a `T`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Fails where `set` would, before anything has happened.
    pub(crate) fn required(self) -> Outcome {
        if self.0.is_null() { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }
}

/// Where an allocation's address goes: the driver writes 0 there when the call fails.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct OutAddress(pub Out<u64>);

/// A pointer to something that the driver reads.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct In<T>(pub *const T);

impl<T: Copy> In<T> {
    /// Reads the value; NULL is an invalid value.
    pub(crate) fn get(self) -> Outcome<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: I1, the pointer is not NULL and so valid for a read of a `T`.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads `count` values.
    pub(crate) fn list(self, count: usize) -> Outcome<Vec<T>> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: I1, the caller's array has `count` elements; each is read by value.
        Ok((0..count).map(|i| unsafe { self.0.add(i).read_unaligned() }).collect())
    }
}

/// A C string of the caller.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(pub *const c_char);

impl Text {
    /// The string; NULL gives `None`.
    pub(crate) fn get(self) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: I1, the string is not NULL and so ends with a NUL.
        Some(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Copies host bytes in.
pub(crate) fn read_host(from: *const c_void, len: usize) -> Outcome<Vec<u8>> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    let mut bytes = vec![0u8; len];
    // SAFETY: I1, `from` is valid for `len` bytes; the vector is new, so the two do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), bytes.as_mut_ptr(), len) };
    Ok(bytes)
}

/// How an argument appears in the call log, and what becomes of it when the call fails.
pub(crate) trait Argument {
    fn show(&self, success: bool) -> String;

    fn failed(&self) {}
}

macro_rules! plain_arguments {
    ($($kind:ty, $format:literal;)*) => {$(
        impl Argument for $kind {
            fn show(&self, _success: bool) -> String {
                format!($format, self)
            }
        }
    )*};
}

plain_arguments! { u32, "{}"; i32, "{}"; usize, "{}"; u8, "{}"; u64, "{:#x}"; }

impl<T> Argument for *const T {
    fn show(&self, _success: bool) -> String {
        format!("{self:p}")
    }
}

impl<T> Argument for *mut T {
    fn show(&self, _success: bool) -> String {
        format!("{self:p}")
    }
}

impl<T> Argument for In<T> {
    fn show(&self, _success: bool) -> String {
        format!("{:p}", self.0)
    }
}

impl<T: Copy + fmt::Debug> Argument for Out<T> {
    fn show(&self, success: bool) -> String {
        if self.0.is_null() {
            return "NULL".into();
        }
        if !success {
            return "-".into();
        }
        // SAFETY: I1, and the call that succeeded has written a `T` there.
        format!("{:#x?}", unsafe { self.0.read_unaligned() })
    }
}

impl Argument for Text {
    fn show(&self, _success: bool) -> String {
        format!("{:?}", self.get().unwrap_or_default())
    }
}

impl Argument for OutAddress {
    fn show(&self, success: bool) -> String {
        self.0.show(success)
    }

    fn failed(&self) {
        self.0.set_if_wanted(0);
    }
}

impl Argument for IpcHandle {
    fn show(&self, _success: bool) -> String {
        let pairs = self.0.iter().map(|byte| format!("{byte:02x}"));
        pairs.collect()
    }
}

/// `CUipcMemHandle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct IpcHandle(pub [u8; 64]);

/// `CUuuid`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Uuid(pub [u8; 16]);

/// `CUmemLocation`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Location {
    pub kind: u32,
    pub id: i32,
}

impl Location {
    pub(crate) const DEVICE: u32 = 1;
    pub(crate) const HOST_KINDS: [u32; 3] = [2, 3, 4];
}

/// `CUmemAllocationProp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationProp {
    pub kind: u32,
    pub requested_handle_types: u32,
    pub location: Location,
    pub win32_meta: *mut c_void,
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: u32,
}

/// `CUmemPoolProps`, up to the members that matter here.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PoolProps {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
}

const _: () = assert!(size_of::<AllocationProp>() == 32 && size_of::<AccessDesc>() == 12);
