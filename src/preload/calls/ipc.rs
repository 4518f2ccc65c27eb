//! Memory shared with other processes.
//!
//! The driver's handle names a whole allocation, so the handle of a block that was cut from a slab would open at the slab's
//! start. The driver ignores the last 8 of the 64 bytes (measured), so the block's offset travels there. A peer without cenote
//! must not get the wrong bytes silently: for such a block the rest of the handle is changed too, in a way that a hooked
//! `cuIpcOpenMemHandle` undoes and the driver refuses.
#![allow(non_snake_case, reason = "the driver's own names")]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::super::process::{Process, lock};
use crate::cuda::{CuResult, DevicePtr, IpcHandle, real};
use crate::ledger::{EventKind, Happening};
use crate::pool::Located;

/// What peers gave us.
#[derive(Debug, Default)]
pub(in super::super) struct Opened {
    /// Pointer that the program has, to the pointer that the driver gave and how often it was opened.
    pointers: Mutex<HashMap<DevicePtr, (DevicePtr, u32)>>,
    exported: AtomicBool,
}

impl Opened {
    /// Whether this process has exported memory: small blocks then get allocations of their own.
    pub(in super::super) fn has_exported(&self) -> bool {
        self.exported.load(Relaxed)
    }
}

/// First bytes of the tail of a handle with an offset.
const MARK: [u8; 4] = *b"cnt1";
/// What the head of such a handle is changed with.
const VEIL: u8 = 0x5a;
const HEAD: usize = 56;

/// The handle of a block `offset` bytes into the allocation that `handle` names. None if the driver uses the tail itself.
fn veil(handle: IpcHandle, offset: u64) -> Option<IpcHandle> {
    let IpcHandle(mut bytes) = handle;
    let (head, tail) = bytes.split_at_mut(HEAD);
    if tail.iter().any(|&byte| byte != 0) {
        return None;
    }
    let offset = u32::try_from(offset / 512).ok()?;
    head.iter_mut().for_each(|byte| *byte ^= VEIL);
    tail.copy_from_slice(&[MARK, offset.to_le_bytes()].concat());
    Some(IpcHandle(bytes))
}

/// The driver's handle and the offset, of a handle that [`veil`] made.
fn unveil(handle: IpcHandle) -> Option<(IpcHandle, u64)> {
    let IpcHandle(mut bytes) = handle;
    let (head, tail) = bytes.split_at_mut(HEAD);
    let offset = tail.strip_prefix(&MARK)?;
    let offset = u32::from_le_bytes(offset.try_into().ok()?);
    head.iter_mut().for_each(|byte| *byte ^= VEIL);
    tail.fill(0);
    Some((IpcHandle(bytes), u64::from(offset) * 512))
}

pub(in super::super) unsafe fn cuIpcGetMemHandle(
    process: &'static Process,
    handle: *mut IpcHandle,
    pointer: DevicePtr,
) -> CuResult {
    // SAFETY: the program's own arguments.
    let code = unsafe { real::cuIpcGetMemHandle(handle, pointer) };
    if !code.is_ok() || handle.is_null() {
        return code;
    }
    let contexts = process.contexts.all_living();
    let located = contexts.iter().find_map(|context| context.pool.export(pointer));
    let Some(located) = located else { return code };
    if !process.opened.exported.swap(true, Relaxed) {
        contexts.iter().for_each(|context| context.pool.stop_slabs());
    }
    let offset = located.block - located.segment;
    if located.segment_bytes > located.block_bytes {
        process.shared_segment(pointer, located);
    }
    if offset == 0 {
        return code;
    }
    // SAFETY: the driver has just written there.
    match veil(unsafe { *handle }, offset) {
        // SAFETY: the program's output, not null.
        Some(veiled) => unsafe { *handle = veiled },
        None => {
            // The handle would open other bytes: the honest answer is that this block can't be exported.
            process.events.note("export_refused", || {
                "a block under 1 MiB could not be exported with this driver; set slabs:false"
                    .to_owned()
            });
            return CuResult::INVALID_VALUE;
        }
    }
    code
}

impl Process {
    fn shared_segment(&self, pointer: DevicePtr, located: Located) {
        let text = format!(
            "a block of a shared segment was exported: the peer can reach all {} bytes of it, and opens it only if it runs \
             under cenote too; set slabs:false otherwise",
            located.segment_bytes
        );
        let mut event = Happening::new(EventKind::SharedSegment, self.age_ns(), text);
        event.address = Some(pointer);
        event.requested_bytes = Some(located.segment_bytes);
        self.events.happened(event);
    }

    /// # Safety
    /// `pointer` is null or valid for a write.
    unsafe fn open(
        &'static self,
        pointer: *mut DevicePtr,
        handle: IpcHandle,
        call: impl FnOnce(IpcHandle) -> CuResult,
    ) -> CuResult {
        // A process that only opens what others made uses the device too.
        self.context();
        let (handle, offset) = unveil(handle).unwrap_or((handle, 0));
        let code = call(handle);
        if code.is_ok() && !pointer.is_null() {
            // SAFETY: the driver has just written there.
            let base = unsafe { *pointer };
            // SAFETY: the program's output, not null.
            unsafe { *pointer = base + offset };
            let mut pointers = lock(&self.opened.pointers);
            pointers.entry(base + offset).or_insert((base, 0)).1 += 1;
        }
        code
    }
}

pub(in super::super) unsafe fn cuIpcOpenMemHandle(
    process: &'static Process,
    pointer: *mut DevicePtr,
    handle: IpcHandle,
    flags: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe {
        process.open(pointer, handle, |handle| real::cuIpcOpenMemHandle(pointer, handle, flags))
    }
}

pub(in super::super) unsafe fn cuIpcOpenMemHandle_v2(
    process: &'static Process,
    pointer: *mut DevicePtr,
    handle: IpcHandle,
    flags: u32,
) -> CuResult {
    // SAFETY: the program's own arguments.
    unsafe {
        process.open(pointer, handle, |handle| real::cuIpcOpenMemHandle_v2(pointer, handle, flags))
    }
}

pub(in super::super) unsafe fn cuIpcCloseMemHandle(
    process: &'static Process,
    pointer: DevicePtr,
) -> CuResult {
    let base = {
        let mut pointers = lock(&process.opened.pointers);
        let base = pointers.get_mut(&pointer).map(|(base, count)| {
            *count -= 1;
            (*base, *count)
        });
        if let Some((_, 0)) = base {
            pointers.remove(&pointer);
        }
        base.map(|(base, _)| base)
    };
    if base.is_none() {
        let text = format!("{pointer:#x} was closed more often than it was opened");
        let mut event = Happening::new(EventKind::UnbalancedClose, process.age_ns(), text);
        event.address = Some(pointer);
        process.events.happened(event);
    }
    // SAFETY: the program's own argument, or the driver's pointer that it stands for.
    unsafe { real::cuIpcCloseMemHandle(base.unwrap_or(pointer)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn a_veiled_handle_comes_back_and_does_not_look_like_the_drivers() {
        let mut bytes = [7u8; 64];
        bytes[HEAD..].fill(0);
        let plain = IpcHandle(bytes);
        for offset in [512, 4096, (2 << 20) - 512] {
            let veiled = veil(plain, offset).unwrap();
            assert!(veiled.0[..HEAD].iter().all(|&byte| byte != 7));
            assert_eq!(unveil(veiled), Some((plain, offset)));
        }
        assert_eq!(unveil(plain), None);
    }

    #[test]
    fn a_driver_that_uses_the_tail_is_left_alone() {
        assert_eq!(veil(IpcHandle([1; 64]), 512), None);
        assert_eq!(unveil(IpcHandle([1; 64])), None);
    }
}
