//! The driver's functions as a C program sees them, for the tests that need a whole process.

#![allow(dead_code, reason = "each test uses its own part")]

use simcuda as _;
use std::ffi::c_void;

unsafe extern "C" {
    pub safe fn cuInit(flags: u32) -> u32;
    pub safe fn cuDevicePrimaryCtxRetain(context: &mut u64, device: i32) -> u32;
    pub safe fn cuCtxSetCurrent(context: u64) -> u32;
    pub safe fn cuMemAlloc_v2(address: &mut u64, size: usize) -> u32;
    pub safe fn cuMemFree_v2(address: u64) -> u32;
    pub safe fn cuStreamCreate(stream: &mut u64, flags: u32) -> u32;
    pub safe fn cuStreamSynchronize(stream: u64) -> u32;
    pub safe fn cuIpcGetMemHandle(handle: &mut Handle, address: u64) -> u32;
    pub safe fn cuIpcOpenMemHandle_v2(address: &mut u64, handle: Handle, flags: u32) -> u32;
    pub safe fn cuIpcCloseMemHandle(address: u64) -> u32;
    pub safe fn cuMemsetD8_v2(address: u64, value: u8, size: usize) -> u32;
    pub safe fn simcuda_kernel(stream: u64, us: u64, address: u64, size: u64, value: i32) -> u32;
    pub safe fn simcuda_check(address: u64, size: u64, value: i32) -> i32;
    pub safe fn simcuda_violations() -> u64;
    pub safe fn simcuda_shutdown();
}

/// `CUipcMemHandle`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle(pub [u8; 64]);

/// Initialises the driver and makes device 0's primary context current.
pub fn start() -> u64 {
    let mut context = 0;
    assert_eq!(cuInit(0), 0);
    assert_eq!(cuDevicePrimaryCtxRetain(&mut context, 0), 0);
    assert_eq!(cuCtxSetCurrent(context), 0);
    context
}

/// Allocates device memory.
pub fn alloc(size: usize) -> u64 {
    let mut address = 0;
    assert_eq!(cuMemAlloc_v2(&mut address, size), 0);
    address
}

/// Sets a variable before the driver reads it.
pub fn set(name: &str, value: &str) {
    // SAFETY: each file under tests/ is one process with one test, and this runs before the first
    // driver call and before any thread is made.
    unsafe { std::env::set_var(name, value) };
}

/// Runs `body` in a forked child; its panic or a false answer is exit status 1.
pub fn in_child(body: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child runs only `body` and leaves by _exit.
    match unsafe { libc::fork() } {
        0 => {
            let good =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: ends the child without the parent's handlers.
            unsafe { libc::_exit(i32::from(!good)) }
        }
        child => child,
    }
}

/// Waits for a child; true if it exited with 0.
pub fn succeeded(child: i32) -> bool {
    let mut status = 0;
    // SAFETY: `status` is valid for the write.
    unsafe { libc::waitpid(child, &mut status, 0) };
    status == 0
}

/// A pipe between a test's processes.
pub struct Pipe([i32; 2]);

impl Pipe {
    pub fn new() -> Pipe {
        let mut ends = [0; 2];
        // SAFETY: the array has room for the two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        Pipe(ends)
    }

    pub fn send<const N: usize>(&self, bytes: [u8; N]) {
        // SAFETY: the array is valid for its length.
        let sent = unsafe { libc::write(self.0[1], bytes.as_ptr().cast::<c_void>(), N) };
        assert_eq!(sent, N as isize);
    }

    pub fn receive<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        // SAFETY: as in `send`.
        let got = unsafe { libc::read(self.0[0], bytes.as_mut_ptr().cast::<c_void>(), N) };
        assert_eq!(got, N as isize);
        bytes
    }
}
