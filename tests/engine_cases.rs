//! Sequences from public reports through the engine, with the bounds that a user would set. Sizes as in the reports, or scaled.
#![cfg(feature = "cli")]

use cenote::cuda::{DevicePtr, Failure};
use cenote::pool::engine::{Engine, EngineSettings, Lane};
use cenote::replay::SimCard;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

struct Job {
    engine: Engine<SimCard>,
    lane: Lane,
}

impl Job {
    fn new(limit: Option<u64>) -> Self {
        let settings = EngineSettings { total: 141 * GIB, limit, slack: 0.018 };
        let engine = Engine::new(SimCard::new(141 * GIB), settings);
        let lane = engine.lane();
        Job { engine, lane }
    }

    fn ask(&mut self, bytes: u64, stream: usize) -> Result<DevicePtr, Failure> {
        self.engine.allocate(&mut self.lane, bytes, stream, 0)
    }

    fn take(&mut self, bytes: u64) -> DevicePtr {
        self.ask(bytes, 0).expect("the case fits")
    }

    fn free(&mut self, block: DevicePtr) {
        self.engine.free(&mut self.lane, block).expect("live");
    }

    fn live(&self) -> u64 {
        self.engine.stats().requested_bytes.current
    }

    fn peak_live(&self) -> u64 {
        self.engine.stats().requested_bytes.peak
    }

    fn reserved(&self) -> u64 {
        self.engine.stats().reserved_bytes.current
    }

    fn peak_reserved(&self) -> u64 {
        self.engine.stats().reserved_bytes.peak
    }

    fn created(&self) -> u64 {
        self.engine.stats().pages_created
    }
}

// C01 A, vllm #41268: the kept tensor is cut out of the temporary's block, and the rest fits neither size.
#[test]
fn weights_that_are_converted_leave_no_remainders() {
    for limit in [None, Some(2560 * MIB)] {
        let mut job = Job::new(limit);
        for _layer in 0..8 {
            let temporary = job.take(530 * MIB);
            job.free(temporary);
            job.take(270 * MIB);
        }
        assert_eq!((job.live(), job.peak_live()), (2160 * MIB, 2420 * MIB));
        assert!(job.peak_reserved() <= 2460 * MIB, "{}", job.peak_reserved() / MIB);
        job.engine.trim();
        assert!(job.reserved() <= 2176 * MIB, "{}", job.reserved() / MIB);
    }
}

// C01 B, vllm #51205: with blocks that must not be split every small request took a new segment.
#[test]
fn small_requests_after_a_large_one_take_nothing_new() {
    let mut job = Job::new(None);
    for _ in 0..32 {
        for bytes in [8 * MIB, 4 * MIB] {
            let block = job.take(bytes);
            job.free(block);
        }
    }
    assert!(job.peak_reserved() <= 20 * MIB);
    let created = job.created();
    let block = job.take(8 * MIB);
    job.free(block);
    assert_eq!(job.created(), created, "a steady state creates nothing");
}

// C02, ROCm #6333: every larger request missed the block of the round before, on three streams.
#[test]
fn sequences_of_other_lengths_hold_no_more_than_their_peak() {
    let mut job = Job::new(None);
    let rounds = [1400u64, 1700, 1900, 2048, 1400, 1450];
    let pass = |job: &mut Job| {
        for tokens in rounds {
            let wanted = [(tokens * 303_872, 0), (384 * MIB, 1), (384 * MIB, 2)];
            let blocks = wanted.map(|(bytes, stream)| job.ask(bytes, stream).expect("room"));
            blocks.into_iter().for_each(|block| job.free(block));
        }
    };
    pass(&mut job);
    assert_eq!(job.peak_live() / MIB, 1361);
    assert!(job.peak_reserved() <= 1500 * MIB, "{}", job.peak_reserved() / MIB);
    let created = job.created();
    pass(&mut job);
    assert!(job.created() - created <= 8, "{} more in the second pass", job.created() - created);
    assert_eq!(job.live(), 0);
    job.engine.trim();
    assert_eq!(job.reserved(), 0);
}

// C03, candle #3851: the growing cache took the blocks of the scores.
#[test]
fn a_growing_cache_leaves_the_scores_their_memory() {
    for limit in [None, Some(1536 * MIB)] {
        let mut job = Job::new(limit);
        let mut cache = vec![None; 56];
        for chunk in 1..=12u64 {
            let length = 512 * chunk;
            for layer in 0..28 {
                let scores = [job.take(57_344 * length), job.take(57_344 * length)];
                scores.into_iter().for_each(|block| job.free(block));
                for tensor in &mut cache[layer * 2..layer * 2 + 2] {
                    let grown = job.take(2048 * length);
                    if let Some(old) = tensor.replace(grown) {
                        job.free(old);
                    }
                }
            }
        }
        assert_eq!((job.live() / MIB, job.peak_live() / MIB), (672, 1342));
        assert!(job.peak_reserved() <= 1536 * MIB, "{}", job.peak_reserved() / MIB);
    }
}

// C05, pytorch #35901: a large freed buffer is peppered with small ones that live long.
#[test]
fn a_large_buffer_comes_back_though_small_ones_took_its_place() {
    let mut job = Job::new(Some(1800 * MIB));
    let large = 1_455_423_488;
    let first = job.take(large);
    job.free(first);
    let parts = [16_515_072, 16_515_072, 11_400_192, 18_191_360, 18_191_360, 18_191_360];
    let blocks: Vec<_> = (0..24).map(|index| (index % 6, job.take(parts[index % 6]))).collect();
    blocks.into_iter().filter(|(place, _)| *place == 4).for_each(|(_, block)| job.free(block));
    job.take(large);
    assert_eq!(job.live() / MIB, 1696);
    assert!(job.peak_reserved() <= 1790 * MIB, "{}", job.peak_reserved() / MIB);
}

// C05 mini, pytorch #95827: ten kibibytes held four gibibytes.
#[test]
fn a_small_block_holds_no_large_one() {
    for kept in [10 * KIB, 2 * MIB] {
        let mut job = Job::new(None);
        let first = job.take(4 * GIB);
        job.free(first);
        job.take(kept);
        job.take(4 * GIB);
        assert!(job.peak_reserved() <= 4100 * MIB, "{kept}: {}", job.peak_reserved() / MIB);
    }
}

// C07, pytorch #95668: a workspace that is never freed pinned the block that it was cut from.
#[test]
fn a_model_switch_leaves_only_the_workspace() {
    let mut job = Job::new(None);
    let weights: Vec<_> = (0..32).map(|_| job.take(64 * MIB)).collect();
    let temporary = job.take(96 * MIB);
    job.free(temporary);
    job.take(8_519_680);
    weights.into_iter().for_each(|block| job.free(block));
    job.engine.trim();
    // The case asks for 10 MiB. The workspace lies in two handles of 8 MiB, and a handle goes back as a whole.
    assert!(job.reserved() <= 16 * MIB, "{}", job.reserved() / KIB);
    (0..10).for_each(|_| _ = job.take(200 * MIB));
    assert_eq!(job.live() / MIB, 2008);
    assert!(job.reserved() <= 2020 * MIB, "{}", job.reserved() / MIB);
}

// C10, pytorch #27600: the retry after a refusal, with the locals alive and without.
#[test]
fn a_refused_request_is_no_allocation() {
    let mut job = Job::new(Some(GIB));
    let locals: Vec<_> = (0..3).map(|_| job.take(256 * MIB)).collect();
    assert_eq!(job.ask(512 * MIB, 0), Err(Failure::OutOfMemory));
    let stats = job.engine.stats();
    assert_eq!((stats.requested_bytes.current, stats.allocation.current), (805_306_368, 3));
    assert_eq!((stats.allocation.allocated, stats.ooms), (3, 1));
    let retry = job.take(256 * MIB);
    job.free(retry);
    locals.into_iter().for_each(|block| job.free(block));
    assert_eq!(job.live(), 0);
    job.take(512 * MIB);
}

// A gap between two blocks whose pages are shared with them: nothing of it can move, and yet it is not lost.
#[test]
fn the_ends_of_a_block_lie_on_pages_that_others_hold() {
    let mut job = Job::new(Some(12 * MIB));
    let before = job.take(3 * MIB);
    let between = job.take(2 * MIB);
    let after = job.take(3 * MIB);
    job.free(between);
    let large = job.take(6 * MIB);
    assert_eq!((job.live(), job.reserved()), (12 * MIB, 12 * MIB));
    let behind = job.engine.backing(large).expect("live");
    let bytes: u64 = behind.handles.iter().map(|(_, bytes)| bytes).sum();
    assert!(behind.offset + 6 * MIB <= bytes, "what is borrowed is behind it too: {behind:?}");
    job.engine.enable_all().expect("all of it is mapped");
    assert_eq!(job.ask(2 * MIB, 0), Err(Failure::OutOfMemory), "the gap is lent");
    job.free(large);
    assert_eq!(job.take(2 * MIB), between, "it was given back");
    for block in [before, between, after] {
        job.free(block);
    }
    job.engine.trim();
    assert_eq!((job.reserved(), job.engine.card().used()), (0, 0));
    assert_eq!(job.engine.card().violation(), None);
}

#[test]
fn graphs_borrow_nothing_and_lend_nothing() {
    let mut job = Job::new(Some(12 * MIB));
    let ask = |job: &mut Job, bytes, pool| job.engine.allocate(&mut job.lane, bytes, 0, pool);
    for (owner, other) in [(0, 1), (1, 0), (1, 1)] {
        let blocks = [3 * MIB, 2 * MIB, 3 * MIB].map(|bytes| ask(&mut job, bytes, owner));
        job.free(blocks[1].expect("it fits"));
        assert_eq!(ask(&mut job, 6 * MIB, other), Err(Failure::OutOfMemory));
        for block in [blocks[0], blocks[2]] {
            job.free(block.expect("it fits"));
        }
        job.engine.forget_pool(1);
        job.engine.trim();
    }
}

// A cache that grows: a block of the old size leaves a gap, whose pages go to a large temporary one.
#[test]
fn a_gap_is_filled_before_a_free_block_is_cut() {
    let mut job = Job::new(Some(22 * MIB));
    job.take(3 * MIB);
    let cache = job.take(6 * MIB);
    job.take(3 * MIB);
    job.free(cache);
    let temporary = job.take(12 * MIB);
    job.free(temporary);
    assert_eq!(job.take(6 * MIB), cache);
    assert!(job.reserved() <= 20 * MIB, "{}", job.reserved() / MIB);
}

// What another process is told of a block must cover it, in order, and hold as long as the block lives: pages of free memory move
// beneath a limit meanwhile.
#[test]
fn the_handles_behind_a_live_block_stay() {
    let mut job = Job::new(Some(64 * MIB));
    let blocks: Vec<_> = (0..12).map(|number| job.take(5 * MIB + number * 512)).collect();
    let small = job.take(1000);
    for &block in blocks.iter().step_by(2) {
        job.free(block);
    }
    let kept: Vec<_> = blocks.iter().copied().skip(1).step_by(2).chain([small]).collect();
    let behind = |job: &Job| -> Vec<_> {
        kept.iter().map(|&block| job.engine.backing(block).expect("live")).collect()
    };
    let before = behind(&job);
    for (backing, &block) in before.iter().zip(&kept) {
        let bytes: u64 = backing.handles.iter().map(|(_, bytes)| bytes).sum();
        let (size, _) = job.engine.size_of(block).expect("live");
        let (_, first) = backing.handles[0];
        let (_, last) = *backing.handles.last().expect("not empty");
        assert!(backing.offset < first, "the first handle is needed");
        let end = backing.offset + size;
        assert!(end <= bytes && end > bytes - last, "and the last one, and no more");
    }
    let moved = job.engine.stats().pages_moved;
    let large = job.take(12 * MIB);
    assert!(job.engine.stats().pages_moved > moved);
    assert_eq!(behind(&job), before);
    job.free(large);
    job.engine.trim();
    assert_eq!(behind(&job), before);
    job.engine.enable_all().expect("all of it is mapped");
    assert!(job.engine.backing(small + 512).is_err());
    job.free(small);
    assert!(job.engine.backing(small).is_err());
}
