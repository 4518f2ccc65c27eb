//! Private pools: what is allocated while a graph is captured comes from memory of its own, since replays use the same addresses.
//!
//! PyTorch names a pool by two numbers, says when a capture into it begins and ends, and when a graph that used it is gone.

use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The name of a pool.
pub(super) type PoolName = (u64, u64);

#[derive(Debug)]
struct Pool {
    name: PoolName,
    /// What the engine knows it by; never 0.
    number: u64,
    /// Captures into it that were begun and have not been released.
    uses: u32,
}

#[derive(Debug, Default)]
struct Inner {
    pools: Vec<Pool>,
    /// Numbers of the pools that captures go into now, the latest last.
    open: Vec<u64>,
    numbers: u64,
}

/// The private pools of a device.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// How many are open: 0 nearly always.
    open: AtomicUsize,
    inner: Mutex<Inner>,
}

impl Pools {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some capture goes into a pool.
    #[inline]
    pub(super) fn any_open(&self) -> bool {
        self.open.load(Relaxed) > 0
    }

    /// The pool that captures go into; 0 for none.
    pub(super) fn current(&self) -> u64 {
        self.lock().open.last().copied().unwrap_or(0)
    }

    /// The number of a new pool that has no name.
    pub(super) fn number(&self) -> u64 {
        let mut inner = self.lock();
        inner.numbers += 1;
        inner.numbers
    }

    /// A capture into a pool begins.
    pub(super) fn begin(&self, name: PoolName) {
        let mut inner = self.lock();
        let number = match inner.pools.iter_mut().find(|pool| pool.name == name) {
            Some(pool) => {
                pool.uses += 1;
                pool.number
            }
            None => {
                inner.numbers += 1;
                let number = inner.numbers;
                inner.pools.push(Pool { name, number, uses: 1 });
                number
            }
        };
        inner.open.push(number);
        self.open.store(inner.open.len(), Release);
    }

    /// It has ended.
    pub(super) fn end(&self, name: PoolName) {
        let mut inner = self.lock();
        let number = inner.pools.iter().find(|pool| pool.name == name).map(|pool| pool.number);
        if let Some(at) = inner.open.iter().rposition(|&open| Some(open) == number) {
            inner.open.remove(at);
        }
        self.open.store(inner.open.len(), Release);
    }

    /// A graph that used the pool is gone. Returns the pool's number if it was the last one.
    pub(super) fn release(&self, name: PoolName) -> Option<u64> {
        let mut inner = self.lock();
        let at = inner.pools.iter().position(|pool| pool.name == name)?;
        let pool = inner.pools.get_mut(at)?;
        pool.uses = pool.uses.saturating_sub(1);
        if pool.uses > 0 {
            return None;
        }
        Some(inner.pools.swap_remove(at).number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_keeps_its_number_until_its_last_graph_is_gone() {
        let pools = Pools::default();
        pools.begin((1, 0));
        let number = pools.current();
        pools.end((1, 0));
        assert!(!pools.any_open() && pools.current() == 0);
        pools.begin((1, 0));
        assert_eq!(pools.current(), number, "a second graph shares the pool");
        pools.end((1, 0));
        assert_eq!(pools.release((1, 0)), None);
        assert_eq!(pools.release((1, 0)), Some(number));
        pools.begin((1, 0));
        assert_ne!(pools.current(), number, "a new pool by an old name");
    }
}
