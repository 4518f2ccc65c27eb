//! The simulated machine: all state behind one lock, and waiting without holding it.
//!
//! # Locks
//! One mutex. It is not held while a thread sleeps on the real clock, so that other threads go
//! on, as they do with the driver; the exception measured there is a free, which holds up their
//! launches (see [`Machine::stall_launches`]).

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::capture::Captures;
use crate::clock::{self, CALL_NS, Clock, Time};
use crate::code::{Code, Outcome};
use crate::context::Contexts;
use crate::graph::Graphs;
use crate::heap::{Heap, PAGE};
use crate::host::HostMemory;
use crate::memory::Memory;
use crate::mmap;
use crate::physical::Physical;
use crate::pool::Pools;
use crate::settings::Settings;
use crate::spans::Spans;
use crate::timeline::Timeline;
use crate::vmm::Vmm;

/// Address space of each device, for its own allocations and for imported ones.
const OWN_SPACE: u64 = 1 << 40;
const FOREIGN_SPACE: u64 = 1 << 38;

/// One card.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) heap: Heap,
    /// Addresses for memory that other processes exported.
    pub(crate) foreign: Spans,
}

/// The state of the driver in this process.
#[derive(Debug)]
pub(crate) struct Sim {
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: Contexts,
    pub(crate) physical: Physical,
    pub(crate) memory: Memory,
    pub(crate) host: HostMemory,
    pub(crate) vmm: Vmm,
    pub(crate) pools: Pools,
    pub(crate) timeline: Timeline,
    pub(crate) captures: Captures,
    pub(crate) graphs: Graphs,
    pub(crate) free_answers: usize,
    launches_stalled_until: Time,
}

impl Sim {
    /// A machine as the settings want it; `None` if the host lacks the address space.
    pub(crate) fn new(settings: Settings) -> Option<Sim> {
        let own = OWN_SPACE.max(settings.capacity.saturating_mul(8).next_multiple_of(PAGE));
        let mut devices = Vec::new();
        for _ in 0..settings.devices {
            let base = mmap::reserve_aligned(own + FOREIGN_SPACE, PAGE)?;
            devices.push(Device {
                heap: Heap::new(base, own),
                foreign: Spans::new(base + own, FOREIGN_SPACE),
            });
        }
        Some(Sim {
            clock: Clock::new(settings.real_clock),
            contexts: Contexts::new(devices.len()),
            physical: Physical::new(settings.keep_bytes),
            memory: Memory::default(),
            host: HostMemory::default(),
            vmm: Vmm::new(),
            pools: Pools::default(),
            timeline: Timeline::default(),
            captures: Captures::default(),
            graphs: Graphs::default(),
            free_answers: 0,
            launches_stalled_until: 0,
            devices,
            settings,
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Lets everything take effect that has ended by now.
    pub(crate) fn settle(&mut self) {
        let now = self.now();
        for work in self.timeline.settle(now) {
            for effect in work.effects {
                self.apply(effect);
            }
        }
        self.settle_frees();
    }

    /// Checks a device ordinal of the caller.
    pub(crate) fn device(&self, ordinal: i32) -> Outcome<usize> {
        match usize::try_from(ordinal) {
            Ok(device) if device < self.devices.len() => Ok(device),
            _ => Err(Code::INVALID_DEVICE),
        }
    }
}

static SIM: Mutex<Option<Sim>> = Mutex::new(None);

/// The machine, locked.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Holds `Some` for as long as the value lives: [`lock`] checks it, and only `start` writes.
    guard: MutexGuard<'static, Option<Sim>>,
}

/// Makes the machine, once.
pub(crate) fn start(settings: &Settings) -> Outcome {
    let mut guard = SIM.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_none() {
        *guard = Some(Sim::new(settings.clone()).ok_or(Code::OUT_OF_MEMORY)?);
    }
    Ok(())
}

/// Locks the machine for one driver call.
pub(crate) fn lock() -> Outcome<Machine> {
    let mut machine = lock_silently()?;
    machine.clock.advance(CALL_NS);
    machine.settle();
    Ok(machine)
}

/// Locks the machine without the passing of time.
pub(crate) fn lock_silently() -> Outcome<Machine> {
    let guard = SIM.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.is_some() { Ok(Machine { guard }) } else { Err(Code::NOT_INITIALIZED) }
}

/// Locks the machine for a launch, which a free on another thread may hold up.
pub(crate) fn lock_for_launch() -> Outcome<Machine> {
    let mut machine = lock()?;
    while machine.clock.is_real() && machine.launches_stalled_until > machine.now() {
        let until = machine.launches_stalled_until;
        machine = machine.wait_until(until)?;
    }
    Ok(machine)
}

impl Machine {
    /// Waits until a time: the virtual clock jumps there, the real one is slept for, unlocked.
    pub(crate) fn wait_until(mut self, time: Time) -> Outcome<Machine> {
        while self.clock.is_real()
            && let left @ 1.. = time.saturating_sub(self.now())
        {
            drop(self);
            clock::sleep(left);
            self = lock_silently()?;
        }
        self.clock.advance_to(time);
        self.settle();
        Ok(self)
    }

    /// Holds up launches of other threads until a time, as a waiting `cuMemFree` does.
    pub(crate) fn stall_launches(&mut self, until: Time) {
        self.launches_stalled_until = until.max(self.launches_stalled_until);
    }
}

impl Deref for Machine {
    type Target = Sim;

    fn deref(&self) -> &Sim {
        self.guard.as_ref().expect("lock() has checked it")
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut Sim {
        self.guard.as_mut().expect("lock() has checked it")
    }
}
