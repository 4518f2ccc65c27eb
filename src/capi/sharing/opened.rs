//! Memory of other processes that is mapped here.
//!
//! What was closed may still be in use by work that was submitted before: it stays mapped until events say that this is done. Nobody
//! waits for them; whoever opens or closes next looks, and a trim waits.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ticket::Ticket;
use super::{serve, socket};
use crate::capi::card::RealCard;
use crate::capi::{devices, life};
use crate::cuda::table::{self, Function};
use crate::cuda::{Card, CuResult, DevicePtr, Event, FILE_DESCRIPTOR, Handle, real};
use crate::preload::shared;

/// A run of addresses, and the device that uses it.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    base: DevicePtr,
    bytes: u64,
    device: i32,
}

#[derive(Debug)]
struct Closing {
    mapped: Mapped,
    /// Behind all work that was submitted before, each with its device. None where a stream captured: no event is to be had then.
    events: Option<Vec<(i32, Event)>>,
}

/// What a ticket opened, on a device.
type Key = (i32, Vec<u8>);

#[derive(Debug, Default)]
struct Opened {
    /// With how often it was opened.
    tickets: HashMap<Key, (Mapped, usize)>,
    keys: HashMap<DevicePtr, Key>,
    closing: Vec<Closing>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

fn opened() -> MutexGuard<'static, Option<Opened>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maps the memory that a ticket names for a device; again, and it is the same address.
///
/// # Errors
/// If the bytes are no ticket, the exporter can't be asked, the memory is gone, or the driver says so.
pub(in crate::capi) fn open(bytes: &[u8], ordinal: i32) -> Result<DevicePtr, CuResult> {
    let ticket = Ticket::from_bytes(bytes).ok_or(CuResult::INVALID_VALUE)?;
    let card = devices::device(ordinal)?.engine.card();
    settle(false);
    let key = (ordinal, bytes.to_vec());
    if let Some(base) = opened().get_or_insert_default().again(&key) {
        return Ok(base);
    }
    // Without the lock: the exporter may take its time.
    let mapped = card.open(&ticket)?;
    let mut guard = opened();
    let opened = guard.get_or_insert_default();
    if let Some(base) = opened.again(&key) {
        // Another thread was faster.
        mapped.unmap(card);
        return Ok(base);
    }
    opened.keys.insert(mapped.base, key.clone());
    opened.tickets.insert(key, (mapped, 1));
    Ok(mapped.base)
}

/// Takes one opening back.
///
/// # Errors
/// If nothing was opened at the address.
pub(in crate::capi) fn close(base: DevicePtr) -> Result<(), CuResult> {
    if life::driver_is_gone() {
        // All of it goes with the process, or is the parent's; so may be the lock.
        return Ok(());
    }
    {
        let mut guard = opened();
        let opened = guard.as_mut().ok_or(CuResult::INVALID_VALUE)?;
        let key = opened.keys.get(&base).ok_or(CuResult::INVALID_VALUE)?;
        let (mapped, count) = opened.tickets.get_mut(key).ok_or(CuResult::INVALID_VALUE)?;
        *count -= 1;
        if *count == 0 {
            opened.closing.push(Closing { mapped: *mapped, events: None });
            opened.tickets.remove(key);
            opened.keys.remove(&base);
        }
    }
    settle(false);
    Ok(())
}

/// Unmaps what was closed and is not in use any more; all of it, if one waits.
pub(in crate::capi) fn settle(wait: bool) {
    if !life::driver_is_gone()
        && let Some(opened) = opened().as_mut()
    {
        opened.closing.retain_mut(|closing| !closing.end(wait));
    }
}

/// One more device uses what another one opened.
///
/// # Errors
/// What the driver says.
pub(in crate::capi) fn let_in(card: &RealCard) -> Result<(), CuResult> {
    let guard = opened();
    let all = guard.iter().flat_map(|opened| opened.tickets.values());
    let mut of_card = all.filter(|(mapped, _)| mapped.device == card.device as i32);
    of_card.try_for_each(|(mapped, _)| card.enable(mapped.base, mapped.bytes))
}

impl Opened {
    fn again(&mut self, key: &Key) -> Option<DevicePtr> {
        let (mapped, count) = self.tickets.get_mut(key)?;
        *count += 1;
        Some(mapped.base)
    }
}

impl Mapped {
    fn unmap(self, card: &RealCard) {
        let Mapped { base, bytes, .. } = self;
        // SAFETY: the whole run was mapped by `open`, and no work uses it.
        let unmap = || unsafe { real::cuMemUnmap(base, bytes as usize) }.ok();
        // SAFETY: it was reserved there, and nothing is mapped in it any more.
        let free = || unsafe { real::cuMemAddressFree(base, bytes as usize) }.ok();
        // Should the driver refuse, the addresses are lost and nothing else.
        let _ = card.call(unmap).and_then(|()| card.call(free));
    }
}

impl Closing {
    /// Unmaps it if no work uses it; whether it is gone.
    fn end(&mut self, wait: bool) -> bool {
        let card = |device| devices::device_if_used(device).map(|device| device.engine.card());
        let Some(own) = card(self.mapped.device) else { return false };
        if self.events.is_none() {
            let users = devices::all().map(|device| device.engine.card());
            let users = users.filter(|user| own.lets_in(user.device));
            let record = |user: &RealCard| user.record_all().map(|e| (user.device as i32, e));
            let recorded =
                shared::outside_captures(|| users.filter_map(record).collect::<Vec<_>>());
            self.events = recorded;
        }
        let Some(events) = &mut self.events else { return false };
        events.retain(|&(device, event)| {
            let Some(card) = card(device) else { return true };
            let is_done = if wait { card.wait(event) } else { card.is_done(event) };
            if is_done {
                card.recycle(event);
            }
            !is_done
        });
        if events.is_empty() {
            self.mapped.unmap(own);
        }
        events.is_empty()
    }
}

impl RealCard {
    /// An event behind all work of the context. None where the driver has no such events: then it was waited for.
    pub(in super::super) fn record_all(&self) -> Option<Event> {
        let record = || {
            let event = self.event()?;
            // SAFETY: the event belongs to this context.
            let code = unsafe { real::cuCtxRecordEvent(self.context, event) };
            code.ok().map(|()| event as Event).inspect_err(|_| self.recycle(event as Event))
        };
        if table::has(Function::cuCtxRecordEvent)
            && let Ok(event) = self.call(record)
        {
            return Some(event);
        }
        // SAFETY: acts on the current context, which is this one.
        let _ = self.call(|| unsafe { real::cuCtxSynchronize() }.ok());
        None
    }

    /// Maps the memory of another process side by side.
    fn open(&self, ticket: &Ticket) -> Result<Mapped, CuResult> {
        let bytes = ticket.size();
        let mut base = 0;
        // SAFETY: `base` is valid for the write.
        let reserve = || unsafe { real::cuMemAddressReserve(&mut base, bytes as usize, 0, 0, 0) };
        self.call(|| { reserve }().ok())?;
        let mut end = base;
        let mut fill = || {
            for parts in ticket.parts.chunks(socket::MOST) {
                let numbers: Vec<u64> = parts.iter().map(|(number, _)| *number).collect();
                let files = serve::ask(&ticket.exporter, &numbers)?;
                for (file, (_, size)) in files.iter().zip(parts) {
                    self.map_file(file, end, *size)?;
                    end += size;
                }
            }
            self.enable(base, bytes)
        };
        if let Err(code) = fill() {
            let mapped = end - base;
            if mapped > 0 {
                let _ = self.unmap(base, mapped);
            }
            // SAFETY: it was reserved above, and nothing is mapped in it.
            let _ = self.call(|| unsafe { real::cuMemAddressFree(base, bytes as usize) }.ok());
            return Err(code);
        }
        Ok(Mapped { base, bytes, device: self.device as i32 })
    }

    /// Maps the memory that a descriptor stands for. The mapping alone holds it then.
    fn map_file(&self, file: &OwnedFd, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        let mut handle: Handle = 0;
        let number = file.as_raw_fd() as usize;
        // SAFETY: `handle` is valid for the write, and the descriptor is open.
        let import = || unsafe {
            real::cuMemImportFromShareableHandle(&mut handle, number, FILE_DESCRIPTOR).ok()
        };
        self.call(import)?;
        let mapped = self.map(at, bytes, handle);
        // SAFETY: the handle was given above. It is not the engine's, which would count it.
        let _ = self.call(|| unsafe { real::cuMemRelease(handle) }.ok());
        mapped
    }
}
