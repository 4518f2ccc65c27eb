//! Handles and result codes.

/// A device address. Never dereferenced here.
pub type DevicePtr = u64;
/// A `CUcontext`.
pub type ContextHandle = usize;
/// A `CUstream`.
pub type StreamHandle = usize;

/// A `CUresult`: any value that any driver returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct CuResult(pub u32);

impl CuResult {
    /// `CUDA_SUCCESS`
    pub const SUCCESS: Self = Self(0);
    /// `CUDA_ERROR_INVALID_VALUE`
    pub const INVALID_VALUE: Self = Self(1);
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// `CUDA_ERROR_NOT_INITIALIZED`
    pub const NOT_INITIALIZED: Self = Self(3);
    /// `CUDA_ERROR_DEINITIALIZED`
    pub const DEINITIALIZED: Self = Self(4);
    /// `CUDA_ERROR_INVALID_DEVICE`
    pub const INVALID_DEVICE: Self = Self(101);
    /// `CUDA_ERROR_OPERATING_SYSTEM`
    pub const OPERATING_SYSTEM: Self = Self(304);
    /// `CUDA_ERROR_INVALID_HANDLE`
    pub const INVALID_HANDLE: Self = Self(400);
    /// `CUDA_ERROR_NOT_PERMITTED`
    pub const NOT_PERMITTED: Self = Self(800);
    /// `CUDA_ERROR_NOT_SUPPORTED`
    pub const NOT_SUPPORTED: Self = Self(801);
    /// `CUDA_ERROR_STREAM_CAPTURE_IMPLICIT`: the legacy stream can't be used while another one captures.
    pub const CAPTURE_IMPLICIT: Self = Self(906);
    /// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`: the capture goes on.
    pub const CAPTURE_WRONG_THREAD: Self = Self(908);
    /// `CUDA_ERROR_CONTEXT_IS_DESTROYED`
    pub const CONTEXT_IS_DESTROYED: Self = Self(709);
    /// `CUDA_ERROR_NOT_READY`
    pub const NOT_READY: Self = Self(600);
    /// `CUDA_ERROR_UNKNOWN`
    pub const UNKNOWN: Self = Self(999);

    /// Whether the call did what it was asked for.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// The error, if it is one.
    ///
    /// # Errors
    /// Anything but success.
    pub fn ok(self) -> Result<(), Self> {
        if self.is_ok() { Ok(()) } else { Err(self) }
    }
}
