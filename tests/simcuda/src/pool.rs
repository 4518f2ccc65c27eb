//! Stream-ordered memory: pools, and frees that take effect when their stream gets there.
//!
//! Simpler than the driver: a pool keeps nothing, whatever its release threshold, so freed memory
//! goes back to the card once the freeing stream has reached the free. The freeing stream itself
//! may have the memory again at once.

use std::collections::BTreeMap;

use crate::clock::Time;
use crate::code::{Code, Outcome};
use crate::heap::Heap;
use crate::memory::{Allocation, Kind};
use crate::state::Sim;
use crate::violation::violation;

const FIRST_POOL: u64 = 0x504f_0000_0000;

/// Freed memory that a stream has not reached yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    ready: Time,
    stream: u64,
    allocation: Allocation,
}

/// The pools of the process.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    pools: BTreeMap<u64, usize>,
    defaults: BTreeMap<usize, u64>,
    pending: Vec<Pending>,
    made: u64,
}

impl Pools {
    pub(crate) fn create(&mut self, device: usize) -> u64 {
        self.made += 1;
        let handle = FIRST_POOL + 16 * self.made;
        self.pools.insert(handle, device);
        handle
    }

    pub(crate) fn default_of(&mut self, device: usize) -> u64 {
        match self.defaults.get(&device) {
            Some(pool) => *pool,
            None => {
                let pool = self.create(device);
                self.defaults.insert(device, pool);
                pool
            }
        }
    }

    pub(crate) fn device_of(&self, pool: u64) -> Outcome<usize> {
        self.pools.get(&pool).copied().ok_or_else(|| {
            violation!("use of the pool {pool:#x}, which is destroyed or unknown");
            Code::INVALID_VALUE
        })
    }

    /// Ends a pool; its allocations live on.
    pub(crate) fn destroy(&mut self, pool: u64) -> Outcome {
        let device = self.device_of(pool)?;
        if self.defaults.get(&device) == Some(&pool) {
            return Err(Code::INVALID_VALUE);
        }
        self.pools.remove(&pool);
        Ok(())
    }

    /// When the last pending free takes effect.
    pub(crate) fn last_ready(&self) -> Option<Time> {
        self.pending.iter().map(|pending| pending.ready).max()
    }
}

impl Sim {
    /// Allocates in stream order from a pool of `context`'s device or another.
    pub(crate) fn allocate_in_order(
        &mut self,
        context: u64,
        device: usize,
        size: u64,
        stream: u64,
    ) -> Outcome<u64> {
        if self.capture_of(stream).is_some() {
            return Err(Code::NOT_SUPPORTED);
        }
        if self.contexts.device_of(context)? != device {
            return Err(Code::NOT_SUPPORTED);
        }
        self.reuse_in_stream(device, size, stream);
        self.allocate(context, size, Kind::Pool)
    }

    /// Lets the stream have back at once what it has freed itself, if the size fits.
    fn reuse_in_stream(&mut self, device: usize, size: u64, stream: u64) {
        let fits = |pending: &Pending| {
            pending.stream == stream
                && pending.allocation.device == device
                && Heap::rounded(pending.allocation.size) == Heap::rounded(size)
        };
        if let Some(place) = self.pools.pending.iter().position(fits) {
            let Pending { allocation, .. } = self.pools.pending.remove(place);
            self.retire(allocation);
        }
    }

    /// Frees in stream order. Work of other streams that runs past the free is a violation.
    pub(crate) fn free_in_order(&mut self, base: u64, stream: u64) -> Outcome {
        if self.capture_of(stream).is_some() {
            return Err(Code::NOT_SUPPORTED);
        }
        let found = self.freeable(base)?;
        let ready = self.timeline.next_start(stream, self.now());
        if let Some(work) = self.timeline.other_user_of(base, found.size, ready, stream) {
            violation!("cuMemFreeAsync of {base:#x} on stream {stream:#x} while {work} uses it");
        }
        let Some(allocation) = self.memory.remove(base) else { return Err(Code::INVALID_VALUE) };
        self.pools.pending.push(Pending { ready, stream, allocation });
        self.settle_frees();
        Ok(())
    }

    /// Lets the frees take effect whose streams have reached them.
    pub(crate) fn settle_frees(&mut self) {
        let now = self.now();
        let (ready, waiting) =
            std::mem::take(&mut self.pools.pending).into_iter().partition(|p| p.ready <= now);
        self.pools.pending = waiting;
        let ready: Vec<Pending> = ready;
        for Pending { allocation, .. } in ready {
            self.retire(allocation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;
    use crate::settings::Settings;
    use crate::timeline::Role;
    use crate::violation::in_this_thread;

    #[test]
    fn freed_memory_goes_to_its_own_stream_at_once_and_to_others_later() {
        let mut sim = Sim::new(Settings::defaults()).unwrap();
        let context = sim.contexts.retain_primary(0);
        let [a, b] = [(); 2].map(|()| sim.timeline.add_stream(context, Role::NonBlocking));
        let base = sim.allocate_in_order(context, 0, 4096, a).unwrap();
        let kernel = Operation::Kernel { duration: 1000, to: base, len: 4096, value: Some(1) };
        sim.execute(a, kernel.clone()).unwrap();
        sim.free_in_order(base, a).unwrap();
        assert_ne!(sim.allocate_in_order(context, 0, 4096, b), Ok(base));
        assert_eq!(sim.allocate_in_order(context, 0, 4096, a), Ok(base));
        sim.execute(a, kernel).unwrap();
        sim.free_in_order(base, a).unwrap();
        sim.clock.advance(5000);
        sim.settle();
        assert_eq!(sim.allocate_in_order(context, 0, 4096, b), Ok(base));
        assert_eq!(in_this_thread::take(), 0);
    }

    #[test]
    fn a_free_that_another_stream_runs_past_is_caught() {
        let mut sim = Sim::new(Settings::defaults()).unwrap();
        let context = sim.contexts.retain_primary(0);
        let [a, b] = [(); 2].map(|()| sim.timeline.add_stream(context, Role::NonBlocking));
        let base = sim.allocate(context, 4096, Kind::Linear).unwrap();
        sim.execute(b, Operation::Fill { to: base, len: 4096, value: 1 }).unwrap();
        sim.free_in_order(base, a).unwrap();
        assert_eq!(in_this_thread::take(), 1);
    }
}
