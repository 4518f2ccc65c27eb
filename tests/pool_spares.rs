//! Spare blocks: a loop gets a few, so that it asks less; nobody is refused, delayed or surprised for their sake.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use cenote::cuda::{CuResult, DevicePtr, Driver, Event, Failure};
use cenote::pool::{Config, Pool, PoolBook};

const MIB: u64 = 1 << 20;
const PLENTY: u64 = 1 << 40;
/// Most bytes of blocks of one size if all but what the program needs are spare.
const MOST: u64 = 16 * MIB;
/// Answers of the driver that wait for [`Card::answer`].
const HELD: &str = "answers are held";

/// A card whose work is done at once. It minds every call that a real driver would mind.
#[derive(Debug, Default)]
struct Card {
    capacity: u64,
    held: Mutex<BTreeMap<DevicePtr, u64>>,
    addresses: AtomicU64,
    events: AtomicU64,
    records: AtomicU64,
    allocations: AtomicU64,
    refusals: AtomicU64,
    captures: AtomicU32,
    /// Allocations of threads with the name [`HELD`] whose answer is on its way, and how many may arrive.
    on_the_way: AtomicU32,
    arrive: AtomicU32,
    now_ms: AtomicU64,
}

impl Card {
    fn held(&self) -> MutexGuard<'_, BTreeMap<DevicePtr, u64>> {
        self.held.lock().unwrap()
    }

    fn bytes(&self) -> u64 {
        self.held().values().sum()
    }

    fn blocks(&self, bytes: u64) -> usize {
        self.held().values().filter(|&&held| held == bytes).count()
    }

    fn mind_captures(&self) {
        assert_eq!(self.captures.load(SeqCst), 0, "a call during a capture");
    }

    /// Lets held answers arrive, once there is one.
    fn answer(&self) {
        self.await_held();
        self.arrive.store(u32::MAX, SeqCst);
    }

    fn await_held(&self) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.on_the_way.load(SeqCst) == 0 {
            assert!(Instant::now() < end, "nobody asks for memory");
            yield_now();
        }
    }
}

impl Driver for Card {
    fn allocate(&self, bytes: u64) -> Result<DevicePtr, Failure> {
        let address = {
            let mut held = self.held();
            if held.values().sum::<u64>() + bytes > self.capacity {
                self.refusals.fetch_add(1, SeqCst);
                return Err(Failure::OutOfMemory);
            }
            let address = PLENTY + self.addresses.fetch_add(1, SeqCst) * 64 * MIB;
            held.insert(address, bytes);
            address
        };
        self.allocations.fetch_add(1, SeqCst);
        if std::thread::current().name() == Some(HELD) {
            self.on_the_way.fetch_add(1, SeqCst);
            while self.arrive.load(SeqCst) == 0 {
                yield_now();
            }
        }
        Ok(address)
    }

    fn free(&self, address: DevicePtr, bytes: u64) -> Result<(), CuResult> {
        assert_eq!(self.held().remove(&address), Some(bytes), "free of {address:#x}");
        Ok(())
    }

    fn record(&self) -> Result<Event, CuResult> {
        self.mind_captures();
        self.events.fetch_add(1, SeqCst);
        Ok(self.records.fetch_add(1, SeqCst))
    }

    fn is_done(&self, _: Event) -> bool {
        self.mind_captures();
        true
    }

    fn wait(&self, _: Event, _: u64) -> Result<bool, CuResult> {
        self.mind_captures();
        Ok(true)
    }

    fn recycle(&self, _: Event) {
        assert_ne!(self.events.fetch_sub(1, SeqCst), 0, "an event is recycled twice");
    }

    fn synchronise(&self) -> Result<(), CuResult> {
        self.mind_captures();
        Ok(())
    }

    fn has_context_events(&self) -> bool {
        true
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(SeqCst)
    }
}

type TestPool = (Pool<Card>, &'static PoolBook);

const PLAIN: Config = Config {
    max_split_size: None,
    max_non_split_rounding: 0,
    collect_above: None,
    slabs: true,
    free_barrier: false,
};

fn pool_of(capacity: u64, config: Config) -> TestPool {
    let book: &'static PoolBook = Box::leak(Box::default());
    (Pool::new(Card { capacity, ..Card::default() }, config, book), book)
}

fn pool(capacity: u64) -> TestPool {
    pool_of(capacity, PLAIN)
}

/// Allocates and frees so often.
fn pairs(pool: &Pool<Card>, rounds: usize, bytes: u64) {
    for _ in 0..rounds {
        pool.free(pool.allocate(bytes, 0).unwrap(), 0).unwrap();
    }
}

/// Runs `held` in a thread that gets no answer to an allocation before [`Card::answer`].
fn beside(held: impl FnOnce() + Send, here: impl FnOnce()) {
    std::thread::scope(|scope| {
        std::thread::Builder::new().name(HELD.to_owned()).spawn_scoped(scope, held).unwrap();
        here();
    });
}

#[test]
fn a_loop_records_far_fewer_events_than_it_frees() {
    let (pool, book) = pool(PLENTY);
    pairs(&pool, 2000, MIB);
    let (events, allocations) =
        (pool.driver().records.load(SeqCst), book.driver_allocations.load(SeqCst));
    pairs(&pool, 8000, MIB);
    let recorded = pool.driver().records.load(SeqCst) - events;
    assert!(recorded <= 1000, "{recorded} events for 8000 frees");
    assert_eq!(book.driver_allocations.load(SeqCst), allocations, "it has all that it gets");
    assert_eq!((pool.driver().blocks(MIB), pool.driver().bytes()), (8, 8 * MIB));
    assert_eq!((book.hits.load(SeqCst), book.reserved.get()), (9999, 8 * MIB));
}

#[test]
fn the_first_spare_comes_after_many_questions_and_not_before() {
    let (pool, _) = pool(PLENTY);
    pairs(&pool, 64, MIB);
    assert_eq!(pool.driver().blocks(MIB), 1);
    pairs(&pool, 1, MIB);
    assert_eq!(pool.driver().blocks(MIB), 2);
}

#[test]
fn hits_that_ask_nothing_get_none() {
    let (pool, _) = pool(PLENTY);
    for _ in 0..10_000 {
        pairs(&pool, 1, MIB);
        pool.settle();
    }
    assert_eq!(pool.driver().blocks(MIB), 1);
}

#[test]
fn sizes_of_one_step_share_its_spares() {
    let (pool, _) = pool_of(PLENTY, Config { slabs: false, ..PLAIN });
    for _ in 0..50_000 {
        pairs(&pool, 1, 2 * MIB);
        pairs(&pool, 1, 512);
    }
    let blocks = [2 * MIB, 512].map(|bytes| pool.driver().blocks(bytes));
    assert!(blocks.iter().sum::<usize>() <= 8, "{blocks:?}");
    assert!(pool.driver().bytes() <= MOST);
}

#[test]
fn small_blocks_of_their_own_count_as_what_they_take() {
    let (pool, _) = pool_of(PLENTY, Config { slabs: false, ..PLAIN });
    pairs(&pool, 50_000, 512);
    assert_eq!(pool.driver().blocks(512), 8);
}

#[test]
fn exported_blocks_that_go_back_bring_no_more_of_them() {
    let (pool, book) = pool(PLENTY);
    for _ in 0..300 {
        pairs(&pool, 500, MIB);
        let shared = pool.allocate(2 * MIB, 0).unwrap();
        pool.export(shared);
        pool.free(shared, 0).unwrap();
    }
    assert!(pool.driver().blocks(MIB) <= 8, "{}", pool.driver().blocks(MIB));
    assert!(book.reserved.peak() <= MOST + 2 * MIB, "{}", book.reserved.peak());
}

#[test]
fn four_sizes_get_four_times_as_much_at_most() {
    let (pool, book) = pool(PLENTY);
    for bytes in [2, 1, 4, 6, 8, 10, 16] {
        pairs(&pool, 5000, bytes * MIB);
    }
    let others = [1, 10, 16].map(|bytes| pool.driver().blocks(bytes * MIB));
    assert_eq!(others, [1; 3], "full with another size, or too large");
    assert_eq!([2, 4, 6, 8].map(|bytes| pool.driver().blocks(bytes * MIB)), [8, 4, 2, 2]);
    assert!(book.reserved.peak() <= 4 * MOST + (1 + 10 + 16) * MIB);
}

#[test]
fn what_the_program_holds_counts() {
    let (pool, _) = pool(PLENTY);
    let live = [0; 8].map(|_| pool.allocate(2 * MIB, 0).unwrap());
    pairs(&pool, 5000, 2 * MIB);
    assert_eq!(pool.driver().blocks(2 * MIB), live.len() + 1);
}

#[test]
fn the_threshold_is_not_crossed_for_a_spare() {
    let (pool, book) = pool_of(PLENTY, Config { collect_above: Some(5 * MIB), ..PLAIN });
    pairs(&pool, 50_000, 2 * MIB);
    assert_eq!(book.reserved.peak(), 4 * MIB);
    assert_eq!(book.garbage_collections.load(SeqCst), 0);
}

#[test]
fn nobody_takes_a_spare_while_another_is_refused() {
    let (pool, _) = pool(PLENTY);
    pairs(&pool, 64, MIB);
    let pressed = pool.press();
    let freed_before = pool.allocate(MIB, 0).unwrap();
    drop(pressed);
    assert_eq!(pool.driver().blocks(MIB), 1, "at the question that makes it due");
    pool.free(freed_before, 0).unwrap();
    pairs(&pool, 64, MIB);
    assert_eq!(pool.driver().blocks(MIB), 2);
}

#[test]
fn nobody_takes_a_spare_while_too_much_waits() {
    let (pool, book) = pool(PLENTY);
    pairs(&pool, 64, MIB);
    // Another context of the device has so much waiting.
    book.waiting.add(1 << 30);
    pairs(&pool, 1, MIB);
    book.waiting.sub(1 << 30);
    assert_eq!(pool.driver().blocks(MIB), 1);
}

/// The last pairs of a loop, with the spare that they take.
fn take_a_spare(pool: &Pool<Card>, bytes: u64) {
    let takes = |_: &_| pool.driver().on_the_way.load(SeqCst) > 0;
    (0..100).inspect(|_| pairs(pool, 1, bytes)).find(takes).expect("a spare");
}

#[test]
fn nobody_is_refused_for_a_spare_that_is_being_taken() {
    // 4 MiB live here, 4 MiB there, and a spare takes the last 4 MiB.
    let (pool, _) = pool(12 * MIB);
    let _live = pool.allocate(4 * MIB, 0).unwrap();
    pairs(&pool, 60, 4 * MIB);
    beside(
        || take_a_spare(&pool, 4 * MIB),
        || {
            pool.driver().await_held();
            let answer = std::thread::scope(|scope| {
                let asks = scope.spawn(|| pool.allocate(4 * MIB, 0));
                while pool.driver().refusals.load(SeqCst) == 0 && !asks.is_finished() {
                    yield_now();
                }
                // It waits; were it refused already, it would not be for this.
                (0..1000).for_each(|_| yield_now());
                pool.driver().answer();
                asks.join().unwrap()
            });
            assert!(answer.is_ok(), "{answer:?}, and nobody needs the spare");
        },
    );
}

// For requests that another pool of the device, or none, serves.
#[test]
fn a_spare_that_is_being_taken_goes_back_with_everything() {
    let (pool, _) = pool(PLENTY);
    pairs(&pool, 60, 4 * MIB);
    beside(
        || take_a_spare(&pool, 4 * MIB),
        || {
            pool.driver().await_held();
            std::thread::scope(|scope| {
                let releases = scope.spawn(|| pool.release_all());
                // It waits; were it over already, the spare would stay.
                (0..1000).for_each(|_| yield_now());
                pool.driver().answer();
                assert!(releases.join().unwrap());
            });
        },
    );
    let blocks = pool.driver().blocks(4 * MIB);
    assert!(blocks <= 1, "{blocks} blocks, and one was live for a part of the time");
}

#[test]
fn a_full_card_is_asked_ever_more_seldom() {
    let (pool, book) = pool(MIB);
    pairs(&pool, 64_000, MIB);
    let refusals = pool.driver().refusals.load(SeqCst);
    assert!((2..=12).contains(&refusals), "{refusals} refusals in 64000 hits");
    assert_eq!(book.hits.load(SeqCst), 63_999);
}

#[test]
fn no_hit_of_a_capture_takes_memory() {
    let (pool, _) = pool(PLENTY);
    pairs(&pool, 500, MIB);
    let blocks = pool.driver().blocks(MIB);
    assert!((2..8).contains(&blocks), "{blocks} blocks: the next one is still to come");
    pool.settle();
    for _ in 0..200 {
        pool.capture(true);
        pool.driver().captures.fetch_add(1, SeqCst);
        let before = pool.driver().allocations.load(SeqCst);
        let hit = pool.allocate(MIB, 0).unwrap();
        assert_eq!(pool.driver().allocations.load(SeqCst), before);
        pool.driver().captures.fetch_sub(1, SeqCst);
        pool.capture(false);
        pool.free(hit, 0).unwrap();
        pool.settle();
    }
}

#[test]
fn spares_go_back_when_nobody_asks_for_them() {
    let (pool, book) = pool(PLENTY);
    pairs(&pool, 5000, MIB);
    pool.settle();
    pool.driver().now_ms.fetch_add(500, SeqCst);
    assert_eq!(pool.release_while_idle(500, 0, usize::MAX), 8);
    assert_eq!((pool.driver().bytes(), book.reserved.get()), (0, 0));
    pairs(&pool, 1, MIB);
    assert_eq!(pool.driver().blocks(MIB), 1, "the count starts anew");
}

#[test]
fn a_block_for_a_context_that_died_is_in_no_book() {
    let (pool, book) = pool(PLENTY);
    let asks = || {
        let answer = pool.allocate(8 * MIB, 0);
        assert_eq!(answer, Err(Failure::Other(CuResult::CONTEXT_IS_DESTROYED)));
    };
    beside(asks, || {
        pool.driver().await_held();
        assert_eq!(pool.bury(), (Vec::new(), 0));
        pool.driver().answer();
    });
    assert_eq!((book.reserved.get(), pool.segments().unwrap().len()), (0, 0));
}

#[test]
fn nor_is_a_spare() {
    let (pool, book) = pool(PLENTY);
    pairs(&pool, 64, MIB);
    beside(
        || assert!(pool.allocate(MIB, 0).is_ok()),
        || {
            pool.driver().await_held();
            assert_eq!(pool.bury().1, MIB);
            pool.driver().answer();
        },
    );
    assert_eq!((book.reserved.get(), pool.segments().unwrap().len()), (0, 0));
}
