//! The program: its blocks, what it counts, and how it does a step.

use std::collections::{BTreeMap, BTreeSet};

use cenote::cuda::Failure;
use cenote::pool::engine::{Count, Engine, EngineSettings, Lane, Stats};

use super::card::ModelCard;
use super::checks;
use super::faults::{CODES, Call};
use super::memory::Extent;
use super::operation::{Block, Op, Setup};

/// A block in the program's hands.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) bytes: u64,
    requested: u64,
    pub(crate) stream: usize,
    pub(crate) extents: Vec<Extent>,
    pub(crate) owner: u64,
    pub(crate) pool: u64,
}

pub(crate) struct World {
    pub(crate) engine: Engine<ModelCard>,
    lanes: [Lane; 2],
    lane: usize,
    pub(crate) setup: Setup,
    pub(crate) live: BTreeMap<u64, Live>,
    /// Addresses and names of the live blocks.
    pub(crate) blocks: Vec<(u64, usize)>,
    pub(crate) freed: Vec<u64>,
    /// Freed blocks of private pools that have not ended, with their addresses: graphs use them still.
    pub(crate) captured: Vec<(u64, Live)>,
    owners: u64,
    /// Allocated bytes, requested bytes, blocks.
    pub(crate) counts: [Count; 3],
    /// More than this may not be held: the limit, or what was held when it was lowered.
    pub(crate) ceiling: u64,
    /// The private pool of each address range of the card, in their order; 0 for none, or one that has ended.
    pub(crate) pools: Vec<u64>,
    /// The engine's number of each private pool of the program that has not ended.
    pub(crate) open: BTreeMap<u64, u64>,
    pools_begun: u64,
    /// Streams that something was allocated for.
    pub(crate) known: BTreeSet<usize>,
    /// A private pool was refused, and may have got the addresses of another: some of its memory is not known as such.
    pub(crate) is_vague: bool,
    /// Whether the peak of a sum over lanes can be exact.
    pub(crate) one_lane: bool,
    /// What was answered: equal programs get equal answers.
    pub(crate) trace: Vec<u64>,
    /// The steps so far, with the names of the blocks.
    pub(crate) named: Vec<Op>,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let Setup { total, capacity, limit, slack, streams, .. } = setup;
        let settings = EngineSettings { total, limit, slack };
        let engine =
            Engine::new(ModelCard::new(capacity, streams), settings).with_rules(setup.rules);
        World {
            lanes: [engine.lane(), engine.lane()],
            lane: 0,
            engine,
            setup,
            live: BTreeMap::new(),
            blocks: vec![],
            freed: vec![],
            captured: vec![],
            owners: 0,
            counts: Default::default(),
            ceiling: limit.unwrap_or(u64::MAX),
            pools: vec![],
            open: BTreeMap::new(),
            pools_begun: 0,
            known: BTreeSet::new(),
            is_vague: false,
            one_lane: true,
            trace: vec![],
            named: vec![],
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.engine.stats()
    }

    pub(crate) fn find(&self, block: Block) -> Option<usize> {
        match block {
            Block::Nth(n) => (!self.blocks.is_empty()).then(|| n % self.blocks.len()),
            Block::Named(name) => self.blocks.iter().position(|&(_, other)| other == name),
        }
    }

    /// The same step, with the name of the block that it is about.
    fn name(&self, op: Op) -> Op {
        let named = |block| match self.find(block) {
            Some(place) => Block::Named(self.blocks[place].1),
            None => block,
        };
        match op {
            Op::Free(block) => Op::Free(named(block)),
            Op::Launch(block) => Op::Launch(named(block)),
            Op::Use(block, stream) => Op::Use(named(block), stream),
            Op::Replay(block, stream) => Op::Replay(named(block), stream),
            Op::Announce(block, stream) => Op::Announce(named(block), stream),
            other => other,
        }
    }

    /// # Errors
    /// What is wrong with the engine.
    pub(crate) fn step(&mut self, op: Op) -> Result<(), String> {
        if let Op::Allocate { bytes, .. } = op
            && self.live.len() >= self.setup.most_live
        {
            self.step(Op::Free(Block::Nth(bytes as usize)))?;
        }
        self.named.push(self.name(op));
        let answer = self.act(op);
        let violation = self.engine.card().state().memory.violation.take();
        answer.and(violation.map_or(Ok(()), Err))?;
        checks::cheap(self)
    }

    fn act(&mut self, op: Op) -> Result<(), String> {
        match op {
            Op::Allocate { name, bytes, stream, pool } => {
                self.allocate(name, bytes, stream, pool)?;
            }
            Op::Free(block) => self.free(block)?,
            Op::FreeWrong(wrong, n) => {
                if let Some(address) = self.wrong(wrong, n) {
                    let before = self.stats();
                    let answer = self.engine.free(&mut self.lanes[self.lane], address);
                    if answer.is_ok() || before != self.stats() {
                        return Err(format!("free of {address:#x} ({wrong:?}): {answer:?}"));
                    }
                }
            }
            Op::Launch(block) => self.launch(block, None, false)?,
            Op::Use(block, stream) => {
                self.announce(block, stream)?;
                self.launch(block, Some(stream), false)?;
            }
            Op::Replay(block, stream) => self.replay(block, stream)?,
            Op::EndStream(stream) => self.end_stream(stream),
            Op::EndPool(pool) => self.end_pool(pool),
            Op::Announce(block, stream) => self.announce(block, stream)?,
            Op::AnnounceWrong(wrong, n) => {
                if let Some(address) = self.wrong(wrong, n)
                    && self.engine.record_use(address, 0).is_ok()
                {
                    return Err(format!("use of {address:#x} ({wrong:?}) was taken"));
                }
            }
            Op::Advance { stream, works } => {
                self.engine.card().state().time.advance_all(stream, works);
            }
            Op::FinishAll => self.engine.card().state().time.finish_all(),
            Op::Trim => {
                let before = self.stats().reserved_bytes.current;
                let idle = self.engine.idle_bytes();
                let freed = self.engine.trim();
                let state = self.engine.card().state();
                let is_sound = state.faults.fired.is_none() && !state.time.any_captures();
                drop(state);
                if is_sound && freed < idle {
                    return Err(format!("trim gave {freed} of {idle} that nobody had"));
                }
                if before - self.stats().reserved_bytes.current != freed {
                    return Err(format!("trim said {freed} of {before}"));
                }
            }
            Op::SetLimit(limit) => {
                self.engine.set_limit(limit);
                let held = self.stats().reserved_bytes.current;
                self.ceiling = limit.unwrap_or(u64::MAX).max(held);
            }
            Op::ResetPeaks => {
                self.engine.reset_peaks();
                self.counts.iter_mut().for_each(|count| count.peak = count.current);
                let held = &mut self.engine.card().state().memory.held;
                held.peak = held.now;
            }
            Op::Capture { stream, begin } => {
                let time = &mut self.engine.card().state().time;
                let stream = time.begin(stream);
                time.capture(stream, begin);
            }
            Op::SwitchLane => {
                self.lane = 1 - self.lane;
                self.one_lane = false;
            }
        }
        Ok(())
    }

    fn allocate(
        &mut self,
        name: usize,
        bytes: u64,
        handle: usize,
        pool: u64,
    ) -> Result<(), String> {
        let before = self.engine.card().state().faults.fired;
        let stream = self.engine.card().state().time.begin(handle);
        let pool = self.pool(pool);
        let answer = self.engine.allocate(&mut self.lanes[self.lane], bytes, handle, pool);
        let spans = self.engine.card().state().memory.spans.len();
        self.pools.resize(spans, pool);
        self.is_vague |= answer.is_err() && pool != 0;
        let address = match answer {
            Ok(address) => address,
            Err(failure) => {
                self.trace.push(u64::MAX);
                return self.refused(bytes, failure, before);
            }
        };
        self.trace.push(address);
        let requested = bytes;
        let bytes = requested.max(1).next_multiple_of(512);
        if let Some(span) = self.engine.card().state().memory.span(address) {
            self.pools[span] = pool;
        }
        self.known.insert(stream);
        let extents = checks::handed_out(self, address, bytes, stream, pool)?;
        self.owners += 1;
        let live = Live { bytes, requested, stream, extents, owner: self.owners, pool };
        self.live.insert(address, live);
        self.blocks.push((address, name));
        self.freed.retain(|&freed| freed != address);
        for (count, number) in self.counts.iter_mut().zip([bytes, requested, 1]) {
            count.current += number;
            count.allocated += number;
            count.peak = count.peak.max(count.current);
        }
        Ok(())
    }

    /// The engine's number of a pool of the program.
    fn pool(&mut self, name: u64) -> u64 {
        if name == 0 {
            return 0;
        }
        *self.open.entry(name).or_insert_with(|| {
            self.pools_begun += 1;
            self.pools_begun
        })
    }

    fn refused(&self, bytes: u64, failure: Failure, before: Option<Call>) -> Result<(), String> {
        let fired = self.engine.card().state().faults.fired;
        let is_lost = matches!(fired, Some(Call::Unmap | Call::Release));
        match failure {
            Failure::OutOfMemory if fired == before && !is_lost => checks::refusal(self, bytes),
            Failure::OutOfMemory => Ok(()),
            Failure::Other(code) if fired != before && code == CODES[1] => Ok(()),
            Failure::Other(code) => Err(format!("{bytes} bytes: {code:?}, and the card is sound")),
        }
    }

    fn free(&mut self, block: Block) -> Result<(), String> {
        let Some(place) = self.find(block) else { return Ok(()) };
        let (address, _) = self.blocks.swap_remove(place);
        let Some(live) = self.live.remove(&address) else { return Ok(()) };
        let answer = self.engine.free(&mut self.lanes[self.lane], address);
        if answer != Ok(live.bytes) {
            return Err(format!("free of {address:#x}, {} bytes: {answer:?}", live.bytes));
        }
        self.freed.push(address);
        if self.open.values().any(|&open| open == live.pool) {
            self.captured.push((address, live.clone()));
        }
        if self.freed.len() > 64 {
            self.freed.remove(0);
        }
        for (count, number) in self.counts.iter_mut().zip([live.bytes, live.requested, 1]) {
            count.current -= number;
            count.freed += number;
        }
        Ok(())
    }

    pub(crate) fn free_all(&mut self) -> Result<(), String> {
        while !self.blocks.is_empty() {
            self.free(Block::Nth(0))?;
        }
        Ok(())
    }
}
