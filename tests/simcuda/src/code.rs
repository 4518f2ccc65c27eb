//! The driver's result codes, with the names and texts that `cuGetErrorName` and
//! `cuGetErrorString` give.

use std::ffi::CStr;

/// A `CUresult`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub u32);

/// What a driver operation yields: a value, or the code that the caller gets.
pub type Outcome<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($constant:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(#[doc = $text] pub const $constant: Code = Code($number);)*

            /// The enumerator's name in `cuda.h`.
            pub fn name(self) -> Option<&'static CStr> {
                if self == Code::SUCCESS {
                    return Some(c"CUDA_SUCCESS");
                }
                let name: &[u8] = match self {
                    $(Code($number) => {
                        concat!("CUDA_ERROR_", stringify!($constant), "\0").as_bytes()
                    })*
                    _ => return None,
                };
                CStr::from_bytes_with_nul(name).ok()
            }

            /// A short text.
            pub fn text(self) -> Option<&'static CStr> {
                let text: &[u8] = match self {
                    $(Code($number) => concat!($text, "\0").as_bytes(),)*
                    _ => return None,
                };
                CStr::from_bytes_with_nul(text).ok()
            }
        }
    };
}

codes! {
    SUCCESS = 0, "no error";
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    DEINITIALIZED = 4, "driver shutting down";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_CONTEXT = 201, "invalid device context";
    MAP_FAILED = 205, "mapping of buffer object failed";
    ALREADY_MAPPED = 208, "resource already mapped";
    INVALID_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part of the range is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713, "the pointer is not registered";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "not permitted while a stream captures";
    STREAM_CAPTURE_INVALIDATED = 901, "a previous error broke the capture";
    STREAM_CAPTURE_MERGE = 902, "operation would merge separate captures";
    STREAM_CAPTURE_UNMATCHED = 903, "capture ended in another stream";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    STREAM_CAPTURE_IMPLICIT = 906, "the legacy stream would depend on a capture";
    CAPTURED_EVENT = 907, "not permitted on an event of a capture";
    STREAM_CAPTURE_WRONG_THREAD = 908, "capture ended by another thread";
    UNKNOWN = 999, "unknown error";
}
