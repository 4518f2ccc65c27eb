//! Real threads on one engine: what each is given is its own, no work of another stream touches it, and the sums are right.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cenote::pool::engine::{Engine, EngineSettings, Lane};

use super::card::ModelCard;
use super::memory::MIB;
use super::operation::Dice;
use super::time::{User, Work};

const THREADS: usize = 4;
/// Each thread has a stream of its own; the last one belongs to all.
const STREAMS: usize = THREADS + 1;

#[derive(Debug, Clone)]
struct Block {
    begin: u64,
    end: u64,
    stream: usize,
    owner: u64,
}

/// What the threads share.
struct Shared {
    engine: Engine<ModelCard>,
    /// Begins and ends of the blocks of all threads.
    owned: Mutex<BTreeMap<u64, u64>>,
    /// Blocks that another thread than their first owner frees.
    handed_over: Mutex<Vec<Block>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn allocate(&self, lane: &mut Lane, bytes: u64, stream: usize, owner: u64) -> Option<Block> {
        let begin = self.engine.allocate(lane, bytes, stream, 0).ok()?;
        let end = begin + bytes.next_multiple_of(512);
        let mut owned = lock(&self.owned);
        let below = owned.range(..end).next_back();
        let clash = below.filter(|&(_, &other_end)| other_end > begin);
        assert_eq!(clash, None, "{begin:#x} to {end:#x} has two owners");
        owned.insert(begin, end);
        drop(owned);
        let state = self.engine.card().state();
        let extents = state.memory.extents(begin, end).expect("memory everywhere");
        let user = User { owner, pool: 0, is_graph: false };
        let clash = state.time.conflict(&extents, [stream, stream], user);
        assert_eq!(clash, None, "work runs on {begin:#x}");
        Some(Block { begin, end, stream, owner })
    }

    fn free(&self, lane: &mut Lane, block: &Block) {
        // Before the call: as soon as the engine has it, another thread may be given it.
        lock(&self.owned).remove(&block.begin);
        assert_eq!(self.engine.free(lane, block.begin), Ok(block.end - block.begin));
    }

    fn launch(&self, block: &Block, stream: usize) {
        let &Block { begin, end, stream: home, owner } = block;
        if stream != home {
            assert_eq!(self.engine.record_use(begin, stream), Ok(()));
        }
        let extents = self.engine.card().state().memory.extents(begin, end);
        let extents = extents.expect("memory everywhere");
        let behind = (stream != home).then_some(home);
        let work = Work { begin, end, extents, owner, pool: 0, is_graph: false, behind };
        self.engine.card().launch(stream, home, work).expect("nobody else's work");
    }

    /// What one thread does.
    fn hammer(&self, thread: usize, operations: u64) {
        let (mut lane, mut mine) = (self.engine.lane(), Vec::new());
        let dice = &mut Dice::new(thread as u64 + 77);
        for n in 0..operations {
            let block = dice.roll(mine.len() as u64) as usize;
            match dice.roll(100) {
                0..42 if mine.len() < 24 => {
                    let any = [600, 30_000, MIB, 2 * MIB, 6 * MIB, dice.roll(16 * MIB) + 1];
                    let (bytes, stream) = (dice.pick(&any), dice.pick(&[thread, THREADS]));
                    let owner = (n + 1) * THREADS as u64 + thread as u64;
                    mine.extend(self.allocate(&mut lane, bytes, stream, owner));
                }
                42..54 if !mine.is_empty() => self.launch(&mine[block], mine[block].stream),
                54..58 if !mine.is_empty() => {
                    self.launch(&mine[block], dice.roll(STREAMS as u64) as usize);
                }
                58..64 => {
                    let stream = dice.roll(STREAMS as u64) as usize;
                    self.engine.card().state().time.advance(stream, 4);
                }
                64 if n % 16 == 0 => _ = self.engine.trim(),
                65 if n % 16 == 0 => self.engine.set_limit(Some((200 + dice.roll(200)) * MIB)),
                66..72 if !mine.is_empty() => lock(&self.handed_over).push(mine.swap_remove(block)),
                72..78 => {
                    let other = lock(&self.handed_over).pop();
                    other.into_iter().for_each(|block| self.free(&mut lane, &block));
                }
                _ if !mine.is_empty() => self.free(&mut lane, &mine.swap_remove(block)),
                _ => {}
            }
        }
        mine.iter().for_each(|block| self.free(&mut lane, block));
    }
}

/// Threads on one card; then nothing is left.
pub(crate) fn run(operations: u64) {
    let total = 400 * MIB;
    let settings = EngineSettings { total, limit: None, slack: 0.05 };
    let engine = Engine::new(ModelCard::new(total, STREAMS), settings);
    let shared = Shared { engine, owned: Mutex::default(), handed_over: Mutex::default() };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || shared.hammer(thread, operations / THREADS as u64));
        }
    });
    let mut lane = shared.engine.lane();
    let left: Vec<_> = lock(&shared.handed_over).drain(..).collect();
    left.iter().for_each(|block| shared.free(&mut lane, block));
    shared.engine.card().state().time.finish_all();
    shared.engine.trim();
    let stats = shared.engine.stats();
    for count in [stats.allocated_bytes, stats.requested_bytes, stats.allocation] {
        assert_eq!((count.current, count.allocated), (0, count.freed));
    }
    assert!(stats.allocation.allocated > operations / 8, "{stats:?}");
    super::checks::peaks(&stats);
    let state = shared.engine.card().state();
    assert_eq!(state.memory.violation, None);
    assert_eq!((stats.reserved_bytes.current, state.memory.used), (0, 0), "bytes are kept");
    assert_eq!(stats.reserved_bytes.freed, state.memory.held.released);
    assert_eq!(state.time.events.len(), 0, "events are kept");
}
