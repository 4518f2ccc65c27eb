//! The card that the engine is given: strict memory, device time, and calls that fail on order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cenote::cuda::{Card, CuResult, DevicePtr, Event, Failure, Handle, StreamHandle};

use super::faults::{Call, Faults};
use super::memory::Memory;
use super::time::{Time, User, Work};

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) memory: Memory,
    pub(crate) time: Time,
    pub(crate) faults: Faults,
}

/// One card; threads may share it.
#[derive(Debug)]
pub(crate) struct ModelCard(Mutex<State>);

impl ModelCard {
    pub(crate) fn new(capacity: u64, streams: usize) -> Self {
        ModelCard(Mutex::new(State {
            memory: Memory::new(capacity),
            time: Time::new(streams),
            faults: Faults::default(),
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Launches work on a block, which must have its memory. Nothing while the stream captures: that would not run now.
    pub(crate) fn launch(&self, stream: usize, home: usize, work: Work) -> Result<(), String> {
        let state = &mut *self.state();
        if state.time.captures(stream) {
            return Ok(());
        }
        let Work { owner, pool, is_graph, .. } = work;
        let user = User { owner, pool, is_graph };
        if let Some(clash) = state.time.conflict(&work.extents, [stream, home], user) {
            return Err(format!("launch on {:#x} runs beside {clash}", work.begin));
        }
        state.time.launch(stream, work);
        Ok(())
    }
}

impl Card for ModelCard {
    fn reserve(&self, bytes: u64, alignment: u64) -> Result<DevicePtr, CuResult> {
        let state = &mut *self.state();
        state.faults.next(Call::Reserve)?;
        state.memory.reserve(bytes, alignment)
    }

    fn create(&self, bytes: u64) -> Result<Handle, Failure> {
        let state = &mut *self.state();
        state.faults.next(Call::Create)?;
        Ok(state.memory.create(bytes)?)
    }

    fn map(&self, at: DevicePtr, bytes: u64, handle: Handle) -> Result<(), CuResult> {
        let state = &mut *self.state();
        state.faults.next(Call::Map)?;
        state.memory.map(at, bytes, handle)
    }

    fn enable(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        let state = &mut *self.state();
        state.faults.next(Call::Enable)?;
        state.memory.enable(at, bytes)
    }

    fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        let state = &mut *self.state();
        state.faults.next(Call::Unmap)?;
        let used = state.time.at(at, at + bytes);
        if let Some(what) =
            used.map(|(s, w)| format!("{:#x} to {:#x} by stream {s}", w.begin, w.end))
        {
            state.memory.violate(format!("unmap of {at:#x}+{bytes:#x}, in use: {what}"));
        }
        state.memory.unmap(at, bytes)
    }

    fn release(&self, handle: Handle, bytes: u64) -> Result<(), CuResult> {
        let state = &mut *self.state();
        state.faults.next(Call::Release)?;
        state.memory.release(handle, bytes)
    }

    fn record(&self, stream: StreamHandle) -> Result<Event, CuResult> {
        let state = &mut *self.state();
        // Before the fault: the driver would not live to tell.
        let Some(stream) = state.time.current(stream) else {
            return Err(state
                .memory
                .violate(format!("record on stream {stream}, which has ended")));
        };
        state.faults.next(Call::Record)?;
        if state.time.captures(stream) {
            return Err(CuResult(900));
        }
        Ok(state.time.record(stream))
    }

    fn is_done(&self, event: Event) -> bool {
        let state = &mut *self.state();
        let Some(done) = state.time.is_done(event) else {
            state.memory.violate(format!("query of event {event}, which is none"));
            return false;
        };
        state.faults.next(Call::IsDone).is_ok() && done
    }

    fn wait(&self, event: Event) -> bool {
        let state = &mut *self.state();
        let Some(&(stream, number)) = state.time.events.get(&event) else {
            state.memory.violate(format!("wait for event {event}, which is none"));
            return false;
        };
        let answer = state.faults.next(Call::Wait).is_ok();
        if answer {
            state.time.finish(stream, number);
        }
        answer
    }

    fn recycle(&self, event: Event) {
        let state = &mut *self.state();
        if state.time.events.remove(&event).is_none() {
            state.memory.violate(format!("recycle of event {event}, which is none"));
        }
    }
}
