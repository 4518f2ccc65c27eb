//! Contexts: handles, identities, primary contexts, and the end of a context.
//!
//! A primary context keeps its handle for the life of the process; after a reset or the last
//! release it is inactive, and the next retain gives it a new id (`facts/interposition.md` 3.9).

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{Code, Outcome};
use crate::memory::Kind;
use crate::state::Sim;
use crate::thread;
use crate::violation::violation;

const FIRST_CONTEXT: u64 = 0x4358_0000_0000;

/// A live context.
#[derive(Debug)]
struct Context {
    id: u64,
    device: usize,
    /// Contexts whose memory it may touch.
    peers: BTreeSet<u64>,
}

/// The primary context of a device.
#[derive(Debug)]
struct Primary {
    handle: u64,
    retained: u32,
}

/// The contexts of the process.
#[derive(Debug)]
pub(crate) struct Contexts {
    live: BTreeMap<u64, Context>,
    primaries: Vec<Primary>,
    made: u64,
    ids: u64,
}

impl Contexts {
    pub(crate) fn new(devices: usize) -> Contexts {
        let handle = |device| FIRST_CONTEXT + 16 * (1 + device as u64);
        let primaries =
            (0..devices).map(|device| Primary { handle: handle(device), retained: 0 }).collect();
        Contexts { live: BTreeMap::new(), primaries, made: devices as u64, ids: 0 }
    }

    fn activate(&mut self, handle: u64, device: usize) {
        self.ids += 1;
        self.live.insert(handle, Context { id: self.ids, device, peers: BTreeSet::new() });
    }

    pub(crate) fn create(&mut self, device: usize) -> u64 {
        self.made += 1;
        let handle = FIRST_CONTEXT + 16 * self.made;
        self.activate(handle, device);
        handle
    }

    pub(crate) fn is_live(&self, handle: u64) -> bool {
        self.live.contains_key(&handle)
    }

    fn was_made(&self, handle: u64) -> bool {
        (FIRST_CONTEXT + 16..=FIRST_CONTEXT + 16 * self.made).contains(&handle)
    }

    /// The code for a handle that is not live. Use of one is a violation.
    fn dead(&self, handle: u64) -> Code {
        violation!("use of the context {handle:#x}, which is destroyed or unknown");
        if self.was_made(handle) { Code::CONTEXT_IS_DESTROYED } else { Code::INVALID_CONTEXT }
    }

    /// Fails for a context that is not live.
    pub(crate) fn check(&self, handle: u64) -> Outcome {
        if self.is_live(handle) { Ok(()) } else { Err(self.dead(handle)) }
    }

    /// The current context of the calling thread. To need one and have none is a violation.
    pub(crate) fn current(&self) -> Outcome<u64> {
        let Some(handle) = thread::current_context() else {
            violation!("a call that needs a context, on thread {} which has none", thread::id());
            return Err(Code::INVALID_CONTEXT);
        };
        self.check(handle).map(|()| handle)
    }

    /// A context named by the caller, where 0 means the current one.
    pub(crate) fn named(&self, handle: u64) -> Outcome<u64> {
        if handle == 0 { self.current() } else { self.check(handle).map(|()| handle) }
    }

    /// The id of a context; asking for a dead one is a probe and no violation.
    pub(crate) fn id_of(&self, handle: u64) -> Outcome<u64> {
        match self.live.get(&handle) {
            Some(context) => Ok(context.id),
            None if self.was_made(handle) => Err(Code::CONTEXT_IS_DESTROYED),
            None => Err(Code::INVALID_CONTEXT),
        }
    }

    pub(crate) fn device_of(&self, handle: u64) -> Outcome<usize> {
        self.live.get(&handle).map(|context| context.device).ok_or_else(|| self.dead(handle))
    }

    pub(crate) fn count_on(&self, device: usize) -> usize {
        self.live.values().filter(|context| context.device == device).count()
    }

    pub(crate) fn is_primary(&self, handle: u64) -> bool {
        self.primaries.iter().any(|primary| primary.handle == handle)
    }

    pub(crate) fn retain_primary(&mut self, device: usize) -> u64 {
        self.primaries[device].retained += 1;
        let handle = self.primaries[device].handle;
        if !self.is_live(handle) {
            self.activate(handle, device);
        }
        handle
    }

    /// Gives a reference back; gives the handle if it was the last one.
    pub(crate) fn release_primary(&mut self, device: usize) -> Outcome<Option<u64>> {
        let primary = &mut self.primaries[device];
        primary.retained = primary.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        let (last, handle) = (primary.retained == 0, primary.handle);
        Ok((last && self.is_live(handle)).then_some(handle))
    }

    /// The primary context's handle if it is active.
    pub(crate) fn active_primary(&self, device: usize) -> Option<u64> {
        Some(self.primaries[device].handle).filter(|handle| self.is_live(*handle))
    }

    pub(crate) fn enable_peer(&mut self, from: u64, to: u64) -> Outcome {
        let (mine, theirs) = (self.device_of(from)?, self.device_of(to)?);
        if mine == theirs {
            return Err(Code::INVALID_DEVICE);
        }
        let fresh = self.live.get_mut(&from).is_some_and(|context| context.peers.insert(to));
        if fresh { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
    }

    /// Whether work of one context may touch the plain allocations of another on another device.
    pub(crate) fn may_reach(&self, from: u64, to: u64) -> bool {
        self.live.get(&from).is_some_and(|context| context.peers.contains(&to))
    }
}

impl Sim {
    /// Ends a context with its streams, events and plain allocations. VMM and pool memory stays.
    pub(crate) fn destroy_context(&mut self, handle: u64) {
        let dies = |kind: Kind| kind != Kind::Pool;
        let owned = self.memory.iter().filter(|found| found.context == handle && dies(found.kind));
        for base in owned.map(|found| found.base).collect::<Vec<_>>() {
            self.free(base, "the end of a context");
        }
        self.timeline.forget_context(handle);
        self.forget_captures_in(handle);
        self.contexts.live.remove(&handle);
        for context in self.contexts.live.values_mut() {
            context.peers.remove(&handle);
        }
    }
}
