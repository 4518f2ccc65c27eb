//! Two threads at the end of a card: what one of them is giving back is no reason to refuse the other.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cenote::cuda::{CuResult, Driver, Event, Failure};
use cenote::pool::{Config, Pool, PoolBook};

const MIB: u64 = 1 << 20;
const CAPACITY: u64 = 4 * MIB;

/// A card whose frees take their time.
#[derive(Debug, Default)]
struct SlowCard {
    taken: AtomicU64,
    next: AtomicU64,
    frees: AtomicU64,
    /// How long a refusal takes: longer than the returns, they are over when it comes.
    refusal: Duration,
}

impl Driver for SlowCard {
    fn allocate(&self, bytes: u64) -> Result<u64, Failure> {
        let fits = |taken: u64| Some(taken + bytes).filter(|&sum| sum <= CAPACITY);
        if self.taken.fetch_update(Relaxed, Relaxed, fits).is_err() {
            std::thread::sleep(self.refusal);
            return Err(Failure::OutOfMemory);
        }
        Ok((1 << 40) + self.next.fetch_add(1, Relaxed) * CAPACITY)
    }

    fn free(&self, _: u64, bytes: u64) -> Result<(), CuResult> {
        self.frees.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(100));
        self.taken.fetch_sub(bytes, Relaxed);
        Ok(())
    }

    fn record(&self) -> Result<Event, CuResult> {
        Ok(0)
    }

    fn is_done(&self, _: Event) -> bool {
        true
    }

    fn wait(&self, _: Event, _: u64) -> Result<bool, CuResult> {
        Ok(true)
    }

    fn recycle(&self, _: Event) {}

    fn synchronise(&self) -> Result<(), CuResult> {
        Ok(())
    }

    fn has_context_events(&self) -> bool {
        true
    }

    fn now_ms(&self) -> u64 {
        0
    }
}

#[test]
fn a_thread_is_not_refused_what_another_is_giving_back() {
    race(Duration::ZERO);
}

#[test]
fn nor_what_another_gave_back_while_the_driver_refused() {
    race(Duration::from_millis(400));
}

fn race(refusal: Duration) {
    let config = Config {
        max_split_size: None,
        max_non_split_rounding: 0,
        collect_above: None,
        slabs: true,
        free_barrier: false,
    };
    let book: &'static PoolBook = Box::leak(Box::default());
    let pool = Pool::new(SlowCard { refusal, ..SlowCard::default() }, config, book);
    let blocks = [0; 2].map(|_| pool.allocate(2 * MIB, 0).unwrap());
    for block in blocks {
        pool.free(block, 0).unwrap();
    }
    pool.settle();
    std::thread::scope(|scope| {
        // Gives both back, for 200 ms: meanwhile they are neither in the pool nor with the driver.
        let flush = scope.spawn(|| pool.release_all());
        while pool.driver().frees.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert!(pool.allocate(4 * MIB, 0).is_ok());
        assert!(flush.join().unwrap());
    });
}
