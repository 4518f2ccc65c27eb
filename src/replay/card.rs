//! A card without a card: it keeps the driver's rules, counts physical memory and adds up what the calls would have cost.
//!
//! It is strict where the driver is forgiving or undefined. A call that breaks a rule is refused, and the first one is kept as
//! a [`Violation`], which makes the whole replay fail: an engine that survives a refusal must not hide it.
//!
//! Every event is done at once: there is no work in a replay.

use std::cell::RefCell;

use super::books::{Mapping, Memory, PAGE, State, Violation};
use super::costs::{self, CREATE, ENABLE, EVENT, MAP, RELEASE, RESERVE, UNMAP};
use crate::cuda::{Card, CuResult, DevicePtr, Event, Failure, Handle, StreamHandle};

/// Addresses are handed out from here,
const FIRST_ADDRESS: u64 = 1 << 40;
/// up to here, as in a process.
const LAST_ADDRESS: u64 = 1 << 47;

/// A simulated card.
#[derive(Debug)]
pub struct SimCard {
    state: RefCell<State>,
}

impl SimCard {
    /// A card with so many bytes of memory.
    pub fn new(capacity: u64) -> Self {
        let state = State { capacity, next_address: FIRST_ADDRESS, ..State::default() };
        SimCard { state: RefCell::new(state) }
    }

    /// Bytes of physical memory now. That of a released handle counts until it is mapped nowhere.
    pub fn used(&self) -> u64 {
        self.state.borrow().used
    }

    /// Most bytes of physical memory so far.
    pub fn peak(&self) -> u64 {
        self.state.borrow().peak
    }

    /// Nanoseconds that the calls so far would have taken, by what they cost on an H200.
    pub fn cost_ns(&self) -> u64 {
        self.state.borrow().cost_ns
    }

    /// The first call that broke a rule.
    pub fn violation(&self) -> Option<Violation> {
        self.state.borrow().violation.clone()
    }

    /// Whether there is one. Cheap enough to ask after every call.
    pub fn is_broken(&self) -> bool {
        self.state.borrow().violation.is_some()
    }

    /// Whether a kernel could use every byte of a range: mapped without a gap, and enabled.
    pub fn is_usable(&self, at: DevicePtr, bytes: u64) -> bool {
        let state = self.state.borrow();
        let end = at.saturating_add(bytes);
        let before = state.mappings.range(..=at).next_back();
        let first = before.map_or(at, |(&begin, _)| begin);
        let mut covered = at;
        for (&begin, mapping) in state.mappings.range(first..end) {
            if begin > covered || !mapping.is_enabled {
                return false;
            }
            covered = begin + mapping.bytes;
        }
        covered >= end
    }
}

impl Card for SimCard {
    fn reserve(&self, bytes: u64, alignment: u64) -> Result<DevicePtr, CuResult> {
        const CALL: &str = "cuMemAddressReserve";
        let mut state = self.state.borrow_mut();
        state.cost_ns += RESERVE;
        state.pages(CALL, 0, bytes)?;
        if alignment != 0 && !alignment.is_power_of_two() {
            return Err(state.refuse(CALL, format!("{alignment} is no alignment")));
        }
        let base = state.next_address.checked_next_multiple_of(alignment.max(PAGE));
        let range = base.and_then(|base| Some((base, base.checked_add(bytes)?)));
        let Some((base, end)) = range.filter(|&(_, end)| end <= LAST_ADDRESS) else {
            return Err(CuResult::OUT_OF_MEMORY);
        };
        state.next_address = end;
        state.reserved.insert(base, end);
        Ok(base)
    }

    fn create(&self, bytes: u64) -> Result<Handle, Failure> {
        let mut state = self.state.borrow_mut();
        state.cost_ns += costs::of(&CREATE, bytes);
        state.pages("cuMemCreate", 0, bytes)?;
        if bytes > state.capacity - state.used {
            return Err(Failure::OutOfMemory);
        }
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        state.memory.push(Memory { bytes, mapped: 0, is_released: false });
        Ok(state.memory.len() as Handle)
    }

    fn map(&self, at: DevicePtr, bytes: u64, handle: Handle) -> Result<(), CuResult> {
        const CALL: &str = "cuMemMap";
        let mut state = self.state.borrow_mut();
        state.cost_ns += costs::of(&MAP, bytes);
        let end = state.pages(CALL, at, bytes)?;
        let range = state.reserved.range(..=at).next_back();
        if range.is_none_or(|(_, &last)| end > last) {
            return Err(state.refuse(CALL, format!("{at:#x} to {end:#x} is not reserved")));
        }
        if let Some(begin) = state.overlapped(at, end) {
            let what = format!("{at:#x} to {end:#x} has a mapping at {begin:#x} already");
            return Err(state.refuse(CALL, what));
        }
        let whole = state.memory(CALL, handle)?.bytes;
        if whole != bytes {
            let what = format!("{bytes} bytes of handle {handle}, which has {whole}");
            return Err(state.refuse(CALL, what));
        }
        state.memory(CALL, handle)?.mapped += 1;
        state.mappings.insert(at, Mapping { bytes, handle, is_enabled: false });
        Ok(())
    }

    fn enable(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        const CALL: &str = "cuMemSetAccess";
        let mut state = self.state.borrow_mut();
        let end = state.pages(CALL, at, bytes)?;
        for (begin, bytes) in state.run(CALL, at, end)? {
            state.cost_ns += costs::of(&ENABLE, bytes);
            if let Some(mapping) = state.mappings.get_mut(&begin) {
                mapping.is_enabled = true;
            }
        }
        Ok(())
    }

    fn unmap(&self, at: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        const CALL: &str = "cuMemUnmap";
        let mut state = self.state.borrow_mut();
        let end = state.pages(CALL, at, bytes)?;
        for (begin, bytes) in state.run(CALL, at, end)? {
            state.cost_ns += costs::of(&UNMAP, bytes);
            let Some(mapping) = state.mappings.remove(&begin) else { continue };
            // A handle that is mapped is in the books, released or not.
            let memory = &mut state.memory[mapping.handle as usize - 1];
            memory.mapped -= 1;
            let memory = *memory;
            state.settle(memory);
        }
        Ok(())
    }

    fn release(&self, handle: Handle, bytes: u64) -> Result<(), CuResult> {
        const CALL: &str = "cuMemRelease";
        let mut state = self.state.borrow_mut();
        state.cost_ns += costs::of(&RELEASE, bytes);
        let whole = state.memory(CALL, handle)?.bytes;
        if whole != bytes {
            let what = format!("handle {handle} has {whole} bytes, not {bytes}");
            return Err(state.refuse(CALL, what));
        }
        let memory = state.memory(CALL, handle)?;
        memory.is_released = true;
        let memory = *memory;
        state.settle(memory);
        Ok(())
    }

    fn record(&self, _: StreamHandle) -> Result<Event, CuResult> {
        let mut state = self.state.borrow_mut();
        state.cost_ns += EVENT;
        let event = state.spare_events.pop().unwrap_or(state.events.len() as Event);
        if event as usize == state.events.len() {
            state.events.push(true);
        }
        state.events[event as usize] = true;
        Ok(event)
    }

    fn is_done(&self, event: Event) -> bool {
        self.state.borrow_mut().event("cuEventQuery", event)
    }

    fn wait(&self, event: Event) -> bool {
        self.state.borrow_mut().event("cuEventSynchronize", event)
    }

    fn recycle(&self, event: Event) {
        let mut state = self.state.borrow_mut();
        if state.event("cuEventDestroy", event) {
            state.events[event as usize] = false;
            state.spare_events.push(event);
        }
    }
}

#[cfg(test)]
mod tests;
