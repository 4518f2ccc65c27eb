//! The real card, as the engine of one device uses it.
//!
//! Calls go to the driver's own functions, past the doors: nothing is counted twice. They run in the device's primary context,
//! whatever the caller's is, and leave the captures of all threads alone.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{devices, life, sharing};
use crate::cuda::{
    AccessDesc, AllocationProp, Card, ContextHandle, CuResult, DevicePtr, Event, Failure, Handle,
    StreamHandle, real,
};
use crate::preload::shared::{self, relaxed, within};

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: u32 = 2;
/// `CU_STREAM_CAPTURE_STATUS_NONE`
const NOT_CAPTURING: u32 = 0;

/// Other devices' streams that use this one's memory. Hardly ever any.
#[derive(Debug, Default)]
struct Abroad {
    /// Each with its context.
    streams: Vec<(StreamHandle, ContextHandle)>,
    /// Events of those contexts, which are not used twice.
    events: Vec<usize>,
}

/// The driver on one device.
#[derive(Debug)]
pub struct RealCard {
    pub(super) device: u32,
    /// The primary context, retained for good.
    pub(super) context: ContextHandle,
    /// Events that nobody uses at the moment.
    events: Mutex<Vec<usize>>,
    abroad: Mutex<Abroad>,
    /// Whether new memory is such that it can go to other processes.
    is_exportable: AtomicBool,
    /// Devices that may use this one's memory, a bit for each; its own is among them.
    allowed: AtomicU32,
}

impl RealCard {
    /// The card of an ordinal, and its memory in bytes.
    pub(super) fn new(device: u32) -> Result<(RealCard, u64), CuResult> {
        let (mut context, mut bytes) = (0, 0);
        // SAFETY: both are valid for the writes, and the driver checks the ordinal.
        unsafe {
            real::cuDeviceTotalMem_v2(&mut bytes, device as i32).ok()?;
            real::cuDevicePrimaryCtxRetain(&mut context, device as i32).ok()?;
        }
        let events = Mutex::default();
        let is_exportable = AtomicBool::new(sharing::is_possible(device));
        let allowed = AtomicU32::new(1 << device);
        Ok((
            RealCard { device, context, events, abroad: Mutex::default(), is_exportable, allowed },
            bytes as u64,
        ))
    }

    /// Makes a call in the context, unless the driver is gone.
    pub(super) fn call<T>(
        &self,
        call: impl FnOnce() -> Result<T, CuResult>,
    ) -> Result<T, CuResult> {
        if life::driver_is_gone() {
            return Err(CuResult::DEINITIALIZED);
        }
        within(self.context, call)?
    }

    fn events(&self) -> MutexGuard<'_, Vec<usize>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event nobody uses. The context is current.
    pub(super) fn event(&self) -> Result<usize, CuResult> {
        if let Some(event) = self.events().pop() {
            return Ok(event);
        }
        let mut event = 0;
        // SAFETY: `event` is valid for the write, and the context is current.
        unsafe { real::cuEventCreate(&mut event, DISABLE_TIMING) }.ok()?;
        Ok(event)
    }

    /// Learns which context a stream belongs to, before its work is asked for: one of another device has events of its own.
    pub(super) fn learn(&self, stream: StreamHandle) {
        let mut context = 0;
        // SAFETY: the program gave the stream, and `context` is valid for the write.
        let mut ask = || unsafe { real::cuStreamGetCtx(stream, &mut context) };
        let is_known = stream != 0 && self.call(|| ask().ok()).is_ok();
        let mut abroad = self.abroad();
        abroad.streams.retain(|&(other, _)| other != stream);
        if is_known && context != 0 && context != self.context {
            abroad.streams.push((stream, context));
        }
    }

    /// The context of a stream, if it is another device's.
    fn context_abroad(&self, stream: StreamHandle) -> Option<ContextHandle> {
        let abroad = self.abroad();
        abroad.streams.iter().find(|(other, _)| *other == stream).map(|&(_, context)| context)
    }

    /// An event behind the work of a stream of another context.
    fn record_abroad(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<Event, CuResult> {
        let record = || {
            let mut event = 0;
            // SAFETY: `event` is valid for the write, and the stream's context is current.
            unsafe { real::cuEventCreate(&mut event, DISABLE_TIMING) }.ok()?;
            // SAFETY: both belong to the current context.
            let recorded = unsafe { real::cuEventRecord(event, stream) }.ok();
            // SAFETY: nobody else knows the event.
            recorded.inspect_err(|_| _ = unsafe { real::cuEventDestroy_v2(event) })?;
            Ok(event)
        };
        if life::driver_is_gone() {
            return Err(CuResult::DEINITIALIZED);
        }
        let event = within(context, record)??;
        self.abroad().events.push(event);
        Ok(event as Event)
    }

    fn abroad(&self) -> MutexGuard<'_, Abroad> {
        self.abroad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reserve_once(&self, bytes: u64, alignment: u64) -> Result<DevicePtr, CuResult> {
        let mut base = 0;
        // SAFETY: `base` is valid for the write.
        let mut reserve = || unsafe {
            real::cuMemAddressReserve(&mut base, bytes as usize, alignment as usize, 0, 0)
        };
        self.call(|| reserve().ok())?;
        Ok(base)
    }

    /// The range of the driver that an address lies in: where it begins, and its bytes.
    pub(super) fn range(&self, address: DevicePtr) -> Result<(DevicePtr, u64), CuResult> {
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: both are valid for the writes.
        let mut ask = || unsafe { real::cuMemGetAddressRange_v2(&mut base, &mut bytes, address) };
        self.call(|| ask().ok())?;
        Ok((base, bytes as u64))
    }

    /// What the driver has left, in bytes; 0 where it does not say.
    pub(super) fn free_bytes(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the writes. No capture minds the question.
        let mut ask = || unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) };
        self.call(|| ask().ok()).map_or(0, |()| free as u64)
    }

    /// Whether the memory that was created last can go to other processes.
    pub(super) fn is_exportable(&self) -> bool {
        self.is_exportable.load(Relaxed)
    }

    /// Lets another device use this one's memory, or no more. What is mapped already has to be enabled anew.
    pub(super) fn let_in(&self, other: u32, may: bool) {
        let bit = 1 << other;
        if may {
            self.allowed.fetch_or(bit, Relaxed);
        } else {
            self.allowed.fetch_and(!bit, Relaxed);
        }
    }

    /// Whether it may.
    pub(super) fn lets_in(&self, other: u32) -> bool {
        self.allowed.load(Relaxed) & (1 << other) != 0
    }

    /// Takes memory of the driver, which can go to other processes where that is possible.
    fn create_once(&self, bytes: u64, properties: &AllocationProp) -> Result<Handle, CuResult> {
        let mut handle = 0;
        // SAFETY: the handle is valid for the write, and the properties for the read.
        unsafe { real::cuMemCreate(&mut handle, bytes as usize, properties, 0) }.ok()?;
        Ok(handle)
    }

    /// Whether a stream captures, or can't be used since another one does.
    pub(super) fn is_capturing(&self, stream: StreamHandle) -> bool {
        let mut status = NOT_CAPTURING;
        // SAFETY: the program gave the stream, and `status` is valid for the write. No capture minds the question.
        let mut ask = || unsafe { real::cuStreamIsCapturing(stream, &mut status) };
        self.call(|| ask().ok()).is_err() || status != NOT_CAPTURING
    }
}

impl Card for RealCard {
    fn reserve(&self, bytes: u64, alignment: u64) -> Result<DevicePtr, CuResult> {
        if let Ok(base) = self.reserve_once(bytes, alignment) {
            if base.is_multiple_of(alignment) {
                return Ok(base);
            }
            // SAFETY: gives back what was just reserved, in which nothing is mapped.
            self.call(|| unsafe { real::cuMemAddressFree(base, bytes as usize) }.ok())?;
        }
        // Some drivers take no large alignment: more is reserved, and kept, than is used.
        let base = self.reserve_once(bytes + alignment, 0)?;
        Ok(base.next_multiple_of(alignment))
    }

    fn create(&self, bytes: u64) -> Result<Handle, Failure> {
        let properties = AllocationProp::on_device(self.device);
        let create = || {
            if self.is_exportable() {
                match self.create_once(bytes, &properties.exportable()) {
                    Ok(handle) => return Ok(handle),
                    // Some systems say that they can and then can't: memory that stays here is better than none.
                    Err(
                        CuResult::NOT_SUPPORTED | CuResult::NOT_PERMITTED | CuResult::INVALID_VALUE,
                    ) => {}
                    Err(code) => return Err(code),
                }
            }
            let handle = self.create_once(bytes, &properties)?;
            self.is_exportable.store(false, Relaxed);
            Ok(handle)
        };
        Ok(self.call(|| shared::create(self.device, bytes, create))?)
    }

    fn map(&self, at: DevicePtr, bytes: u64, handle: Handle) -> Result<(), CuResult> {
        // SAFETY: the engine maps whole handles of its own, at addresses that it reserved.
        self.call(|| unsafe { real::cuMemMap(at, bytes as usize, 0, handle, 0) }.ok())
    }

    fn enable(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        let devices = (0..devices::MOST as u32).filter(|&other| self.lets_in(other));
        let access: Vec<_> = devices.map(AccessDesc::read_write).collect();
        // SAFETY: the engine enables what it mapped, and so many descriptions are passed.
        let enable = || unsafe {
            real::cuMemSetAccess(at, bytes as usize, access.as_ptr(), access.len()).ok()
        };
        self.call(enable)
    }

    fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        // SAFETY: the engine unmaps what it mapped, once an event says that no work uses it.
        self.call(|| unsafe { real::cuMemUnmap(at, bytes as usize) }.ok())
    }

    fn release(&self, handle: Handle, _bytes: u64) -> Result<(), CuResult> {
        self.call(|| {
            // The handle's value may be given again as soon as the driver has it back.
            sharing::released(handle);
            shared::released(handle);
            // SAFETY: the engine releases each handle once.
            unsafe { real::cuMemRelease(handle) }.ok()
        })
    }

    fn record(&self, stream: StreamHandle) -> Result<Event, CuResult> {
        if self.is_capturing(stream) {
            return Err(CuResult::CAPTURE_IMPLICIT);
        }
        if let Some(context) = self.context_abroad(stream) {
            return self.record_abroad(context, stream);
        }
        self.call(|| {
            let event = self.event()?;
            // SAFETY: the event belongs to this context, the stream is the program's.
            let code = unsafe { real::cuEventRecord(event, stream) };
            code.ok().map(|()| event as Event).inspect_err(|_| self.events().push(event))
        })
    }

    fn record_everything(&self) -> Result<Option<Event>, CuResult> {
        shared::outside_captures(|| self.record_all()).ok_or(CuResult::CAPTURE_IMPLICIT)
    }

    fn is_done(&self, event: Event) -> bool {
        // SAFETY: the event came from `record` and was not destroyed.
        let ask = || unsafe { real::cuEventQuery(event as usize) };
        self.call(|| relaxed(ask).ok()).is_ok()
    }

    fn wait(&self, event: Event) -> bool {
        // SAFETY: as above.
        let wait = || unsafe { real::cuEventSynchronize(event as usize) };
        self.call(|| relaxed(wait).ok()).is_ok()
    }

    fn recycle(&self, event: Event) {
        let event = event as usize;
        let mut abroad = self.abroad();
        if let Some(at) = abroad.events.iter().position(|&other| other == event) {
            abroad.events.swap_remove(at);
            drop(abroad);
            // SAFETY: made by `record_abroad`, and done with.
            let _ = self.call(|| unsafe { real::cuEventDestroy_v2(event) }.ok());
            return;
        }
        drop(abroad);
        self.events().push(event);
    }
}
