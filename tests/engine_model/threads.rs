//! Real threads on one engine: what each is given is its own, no work of another stream touches it, and the sums are right.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(not(cenote_shuttle))]
use std::thread::scope;

#[cfg(cenote_shuttle)]
use shuttle::thread::scope;

use cenote::pool::engine::{Engine, EngineSettings, Lane, Stats};

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

/// What the threads share. Its own locks are never held while the engine is called: a checker of orders can't see them.
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
    fn new(total: u64) -> Self {
        let settings = EngineSettings { total, limit: None, slack: 0.05 };
        let engine = Engine::new(ModelCard::new(total, STREAMS), settings);
        Shared { engine, owned: Mutex::default(), handed_over: Mutex::default() }
    }

    /// A block for the stream that has a handle now.
    fn allocate(&self, lane: &mut Lane, bytes: u64, handle: usize, owner: u64) -> Option<Block> {
        let stream = self.engine.card().state().time.begin(handle);
        let begin = self.engine.allocate(lane, bytes, handle, 0).ok()?;
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

    /// Streams of one handle, one after another: each leaves work, and now and then a block that somebody else frees.
    fn come_and_go(&self, handle: usize, rounds: u64) {
        let mut lane = self.engine.lane();
        for round in 0..rounds {
            let mut blocks = Vec::new();
            for bytes in [600, 3 * MIB] {
                let owner = (round + 1) * THREADS as u64 + handle as u64;
                blocks.extend(self.allocate(&mut lane, bytes, handle, owner));
            }
            for block in &blocks {
                let &Block { begin, end, stream, owner } = block;
                let extents = self.engine.card().state().memory.extents(begin, end);
                let extents = extents.expect("memory everywhere");
                let work =
                    Work { begin, end, extents, owner, pool: 0, is_graph: false, behind: None };
                self.engine.card().launch(stream, stream, work).expect("nobody else's work");
            }
            if round % 2 == 1 {
                lock(&self.handed_over).extend(blocks.pop());
            }
            blocks.iter().for_each(|block| self.free(&mut lane, block));
            self.engine.forget_stream(handle);
            self.engine.card().state().time.end(handle);
            let other = lock(&self.handed_over).pop();
            other.into_iter().for_each(|block| self.free(&mut lane, &block));
            if round % 3 == 2 {
                self.engine.card().state().time.advance_all(handle, 3);
            }
        }
    }

    /// Everything is freed and done, and goes back.
    fn end(&self) -> Stats {
        let mut lane = self.engine.lane();
        let left: Vec<_> = lock(&self.handed_over).drain(..).collect();
        left.iter().for_each(|block| self.free(&mut lane, block));
        self.engine.card().state().time.finish_all();
        self.engine.trim();
        let stats = self.engine.stats();
        for count in [stats.allocated_bytes, stats.requested_bytes, stats.allocation] {
            assert_eq!((count.current, count.allocated), (0, count.freed));
        }
        super::checks::peaks(&stats);
        let state = self.engine.card().state();
        assert_eq!(state.memory.violation, None);
        assert_eq!((stats.reserved_bytes.current, state.memory.used), (0, 0), "bytes are kept");
        assert_eq!(stats.reserved_bytes.freed, state.memory.held.released);
        assert_eq!(state.time.events.len(), 0, "events are kept");
        stats
    }
}

/// Threads on one card; then nothing is left.
pub(crate) fn run(operations: u64) {
    let shared = Shared::new(400 * MIB);
    scope(|scope| {
        for thread in 0..THREADS {
            let shared = &shared;
            scope.spawn(move || shared.hammer(thread, operations / THREADS as u64));
        }
    });
    let stats = shared.end();
    assert!(stats.allocation.allocated > operations / 8, "{stats:?}");
}

/// Threads whose streams come and go; then nothing is left.
pub(crate) fn come_and_go(rounds: u64) {
    let shared = Shared::new(64 * MIB);
    scope(|scope| {
        for thread in 0..THREADS - 1 {
            let shared = &shared;
            scope.spawn(move || shared.come_and_go(thread, rounds));
        }
    });
    shared.end();
}
