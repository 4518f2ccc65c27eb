//! Who a device is, for the report: asked while the driver may be asked.

use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering::Relaxed;

use super::process::{Phase, Process, lock, phase};
use crate::cuda::real;

/// Asks the driver who a device is, when something of it is seen for the first time.
pub(super) fn note(process: &Process, device: u32) {
    if phase() == Phase::Exiting {
        return;
    }
    let mut name = [0 as c_char; 128];
    let mut uuid = [0u8; 16];
    let mut version = 0;
    // SAFETY: the outputs are valid for the writes, and the name's length is said.
    let (named, known) = unsafe {
        real::cuDriverGetVersion(&mut version);
        let named = real::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device as i32);
        (named.is_ok(), real::cuDeviceGetUuid_v2(&mut uuid, device as i32).is_ok())
    };
    process.page.page.driver_version.store(version as u32, Relaxed);
    // SAFETY: the last byte is still 0, whatever the driver wrote before it.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let hex = format!("{:032x}", u128::from_be_bytes(uuid));
    let groups =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| hex.get(group).unwrap_or_default());
    let uuid = if known { format!("GPU-{}", groups.join("-")) } else { String::new() };
    lock(&process.device_names).push((device, if named { name } else { String::new() }, uuid));
}
