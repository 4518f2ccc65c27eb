//! Real threads on one pool: what each is given is its own, and no work in flight touches it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cenote::pool::{Pool, PoolBook};

use super::checks;
use super::driver::{Card, Handle};
use super::machine;
use super::memory::MIB;

/// Dice that are the same in every run.
struct Dice(u64);

impl Dice {
    /// A number below `end`.
    fn roll(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

type Owned = Mutex<BTreeMap<u64, u64>>;

/// Starts and ends of the blocks of all threads.
fn own(owned: &Owned, start: u64, end: u64) {
    let mut owned = owned.lock().unwrap_or_else(PoisonError::into_inner);
    let below = owned.range(..end).next_back();
    let clash = below.filter(|&(_, &other_end)| other_end > start);
    assert_eq!(clash, None, "{start:#x} to {end:#x} has two owners");
    owned.insert(start, end);
}

fn free(pool: &Pool<Handle>, owned: &Owned, start: u64) {
    // Before the call: as soon as the pool has it, another thread may be given it.
    owned.lock().unwrap_or_else(PoisonError::into_inner).remove(&start);
    assert_eq!(pool.free(start, 2), Ok(()));
}

fn hammer(pool: &Pool<Handle>, owned: &Owned, seed: u64, until: Instant) -> u64 {
    let (mut dice, mut mine, mut operations) = (Dice(seed), Vec::new(), 0);
    while Instant::now() < until {
        operations += 1;
        match dice.roll(100) {
            0..45 if mine.len() < 12 => {
                let sizes = [600, 30_000, 500_000, MIB, 2 * MIB, 6 * MIB, dice.roll(16 * MIB) + 1];
                let bytes = sizes[dice.roll(sizes.len() as u64) as usize];
                let Ok(start) = pool.allocate(bytes, 1) else { continue };
                let range = start..start + bytes;
                let busy = pool.driver().card().is_busy(&range);
                assert!(!busy, "work in flight on {start:#x}, which was handed out");
                own(owned, range.start, range.end);
                mine.push(range);
            }
            45..70 if !mine.is_empty() => {
                let range = &mine[dice.roll(mine.len() as u64) as usize];
                let (stream, micros) = (dice.roll(4) as usize, dice.roll(20_000));
                pool.driver().card().launch(stream, range.clone(), micros);
            }
            70 => drop(pool.release_all()),
            71 => drop(pool.release_idle(dice.roll(5), dice.roll(64 * MIB))),
            72 => drop(pool.release_while_idle(0, 0, usize::MAX)),
            73 => pool.settle(),
            74..80 => {
                let card = &mut *pool.driver().card();
                card.advance_to(card.now + 2_000);
            }
            _ if !mine.is_empty() => {
                let range = mine.swap_remove(dice.roll(mine.len() as u64) as usize);
                free(pool, owned, range.start);
            }
            _ => {}
        }
    }
    mine.into_iter().for_each(|range| free(pool, owned, range.start));
    operations
}

/// Eight threads on a card of 160 MiB; then nothing is left. Returns how many operations there were.
pub(crate) fn run(configuration: usize, time: Duration) -> u64 {
    let (config, events) = machine::config(configuration);
    let book: &'static PoolBook = Box::leak(Box::default());
    let pool = Pool::new(Handle::new(Card::new(160 * MIB, events)), config, book);
    let (owned, until) = (Owned::default(), Instant::now() + time);
    let operations = std::thread::scope(|scope| {
        let hammers = (1..=8).map(|seed| {
            scope.spawn({
                let (pool, owned) = (&pool, &owned);
                move || hammer(pool, owned, seed, until)
            })
        });
        let hammers: Vec<_> = hammers.collect();
        let counts = hammers.into_iter().map(|hammer| hammer.join().expect("a sound pool"));
        counts.sum()
    });
    let segments = pool.segments().expect("nobody else is in the pool");
    checks::recount(book, &segments);
    assert_eq!(book.live.get(), 0, "live bytes");
    assert_eq!(book.reserved.get(), pool.driver().card().memory.bytes(), "reserved bytes");
    let card_is_idle = |card: &mut Card| card.advance_to(card.all_done_at());
    card_is_idle(&mut pool.driver().card());
    pool.release_all();
    let card = pool.driver().card();
    assert_eq!((book.reserved.get(), card.memory.bytes(), card.events()), (0, 0, 0), "is kept");
    operations
}
