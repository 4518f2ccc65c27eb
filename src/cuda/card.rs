//! What the engine needs of a card. The C API implements it for the real driver, the replayer for a simulated one.

use super::{CuResult, DevicePtr, Event, Failure, StreamHandle};

/// Physical memory as the driver names it.
pub type Handle = u64;

/// The calls through which the engine gets memory on one device, and learns what is done.
///
/// None of them waits for running work except [`wait`](Card::wait). All may be made while a stream captures, except
/// [`record`](Card::record) on a capturing stream.
pub trait Card {
    /// Address space, aligned to `alignment`, a power of two: `cuMemAddressReserve`.
    ///
    /// # Errors
    /// What the driver says.
    fn reserve(&self, bytes: u64, alignment: u64) -> Result<DevicePtr, CuResult>;

    /// Physical memory: `cuMemCreate`. `bytes` is a multiple of 2 MiB.
    ///
    /// # Errors
    /// See [`Failure`].
    fn create(&self, bytes: u64) -> Result<Handle, Failure>;

    /// Puts a whole handle at an address: `cuMemMap`. It may be at another one already.
    ///
    /// # Errors
    /// What the driver says.
    fn map(&self, at: DevicePtr, bytes: u64, handle: Handle) -> Result<(), CuResult>;

    /// Lets the device use a run of mapped addresses, and those other devices that have been let in: `cuMemSetAccess`. Again after
    /// one more has been: see [`Engine::enable_all`](crate::pool::engine::Engine::enable_all).
    ///
    /// # Errors
    /// What the driver says.
    fn enable(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult>;

    /// Takes whole mappings away from a run of addresses: `cuMemUnmap`. No work may use them any more.
    ///
    /// # Errors
    /// What the driver says.
    fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult>;

    /// Gives physical memory back, once it is mapped nowhere: `cuMemRelease`.
    ///
    /// # Errors
    /// What the driver says.
    fn release(&self, handle: Handle, bytes: u64) -> Result<(), CuResult>;

    /// Records an event behind the work of a stream.
    ///
    /// # Errors
    /// If there is none to be had, or the stream captures.
    fn record(&self, stream: StreamHandle) -> Result<Event, CuResult>;

    /// Records an event behind all work on the device, on whichever stream. None if all of it was waited for instead.
    ///
    /// # Errors
    /// Not supported, where the streams have to be asked one by one; another code if it can't be done now, since a stream captures.
    fn record_everything(&self) -> Result<Option<Event>, CuResult> {
        Err(CuResult::NOT_SUPPORTED)
    }

    /// Whether the work before the event is done. An error counts as not done.
    fn is_done(&self, event: Event) -> bool;

    /// Waits until it is. False if it never will be, as far as one can tell.
    fn wait(&self, event: Event) -> bool;

    /// The event is not needed any more.
    fn recycle(&self, event: Event);
}
