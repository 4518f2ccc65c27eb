//! What this process has let others know of.

use std::collections::HashMap;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::serve;
use super::ticket::Ticket;
use crate::capi::devices;
use crate::cuda::{CuResult, DevicePtr, FILE_DESCRIPTOR, Handle, real};

/// Numbers of handles.
#[derive(Debug, Default)]
struct Exports {
    numbers: HashMap<Handle, u64>,
    /// Of a number: the handle, and its device.
    handles: HashMap<u64, (Handle, i32)>,
    last: u64,
}

static EXPORTS: Mutex<Option<Exports>> = Mutex::new(None);
/// Whether anything was exported: most processes never do.
static ANY: AtomicBool = AtomicBool::new(false);

fn exports() -> MutexGuard<'static, Option<Exports>> {
    EXPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exports {
    fn number(&mut self, handle: Handle, device: i32) -> u64 {
        if let Some(&number) = self.numbers.get(&handle) {
            return number;
        }
        self.last += 1;
        self.numbers.insert(handle, self.last);
        self.handles.insert(self.last, (handle, device));
        self.last
    }
}

/// A ticket for the memory behind a live block, and where the block begins in it. The memory stays behind the block until it is
/// freed; who lets another process use it frees it later.
///
/// # Errors
/// If the block is not one, the memory can't go to other processes, or no thread can be had that gives it to them.
pub(in crate::capi) fn export(pointer: DevicePtr) -> Result<(Vec<u8>, u64), CuResult> {
    let found = devices::all().find_map(|device| {
        let backing = device.engine.backing(pointer).ok()?;
        Some((device, backing))
    });
    let (device, backing) = found.ok_or(CuResult::INVALID_VALUE)?;
    if !device.engine.card().is_exportable() {
        return Err(CuResult::NOT_SUPPORTED);
    }
    let exporter = serve::exporter().ok_or(CuResult::OPERATING_SYSTEM)?;
    ANY.store(true, Relaxed);
    let mut guard = exports();
    let exports = guard.get_or_insert_default();
    let ordinal = device.index as i32;
    let is_new = backing.handles.iter().any(|(handle, _)| !exports.numbers.contains_key(handle));
    if is_new && let Some(&(first, _)) = backing.handles.first() {
        // What the driver refuses is said here, and not to the other process later.
        descriptor(first, ordinal)?;
    }
    let number = |(handle, bytes)| (exports.number(handle, ordinal), bytes);
    let parts = backing.handles.into_iter().map(number).collect();
    Ok((Ticket { exporter, parts }.to_bytes(), backing.offset))
}

/// A handle is about to go back to the driver: nobody can ask for it any more.
pub(in crate::capi) fn released(handle: Handle) {
    if !ANY.load(Relaxed) {
        return;
    }
    if let Some(exports) = exports().as_mut()
        && let Some(number) = exports.numbers.remove(&handle)
    {
        exports.handles.remove(&number);
    }
}

/// Descriptors of numbered memory.
///
/// # Errors
/// If some of it has gone back to the driver; what the driver says.
pub(super) fn descriptors(numbers: &[u64]) -> Result<Vec<OwnedFd>, CuResult> {
    // Held over the driver's calls: no handle goes back to the driver meanwhile.
    let guard = exports();
    let exports = guard.as_ref().ok_or(CuResult::INVALID_HANDLE)?;
    let one = |number| {
        let &(handle, device) = exports.handles.get(number).ok_or(CuResult::INVALID_HANDLE)?;
        descriptor(handle, device)
    };
    numbers.iter().map(one).collect()
}

fn descriptor(handle: Handle, device: i32) -> Result<OwnedFd, CuResult> {
    let device = devices::device_if_used(device).ok_or(CuResult::INVALID_DEVICE)?;
    device.engine.card().call(|| {
        let mut file = -1;
        // SAFETY: `file` is valid for the write of a descriptor, which is what is asked for, and the handle is held.
        unsafe { real::cuMemExportToShareableHandle(&mut file, handle, FILE_DESCRIPTOR, 0) }
            .ok()?;
        // SAFETY: the driver gave a new descriptor, which is ours alone.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    })
}
