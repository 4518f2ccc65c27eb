//! Where an address lies. The driver knows segments; the program, and whoever shares its memory, must see the block that it was
//! given: they export the base that is named here and send the distance to it.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::process::Process;
use crate::cuda::{CuResult, DevicePtr, real};
use crate::pool::SlotState;

pub(in super::super) unsafe fn cuMemGetAddressRange_v2(
    process: &'static Process,
    base: *mut DevicePtr,
    bytes: *mut usize,
    pointer: DevicePtr,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuMemGetAddressRange_v2(base, bytes, pointer) };
    if !code.is_ok() {
        return code;
    }
    let contexts = process.contexts.all_living();
    let located = contexts.iter().find_map(|context| context.pool.locate(pointer));
    if let Some(located) = located.filter(|located| located.state == SlotState::Live) {
        if !base.is_null() {
            // SAFETY: the driver has just written there.
            unsafe { *base = located.block };
        }
        if !bytes.is_null() {
            // SAFETY: as above.
            unsafe { *bytes = located.requested_bytes as usize };
        }
    }
    code
}
