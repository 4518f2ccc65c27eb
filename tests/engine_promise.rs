//! How much memory the engine holds: the promise, when it begins anew, and when it is widened.
#![cfg(feature = "cli")]

use cenote::cuda::DevicePtr;
use cenote::pool::engine::{Engine, EngineSettings, Lane};
use cenote::replay::SimCard;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

struct Job {
    engine: Engine<SimCard>,
    lane: Lane,
    random: u64,
}

impl Job {
    fn new() -> Self {
        let card = SimCard::new(141 * GIB);
        let engine =
            Engine::new(card, EngineSettings { total: 141 * GIB, limit: None, slack: 0.018 });
        let lane = engine.lane();
        Job { engine, lane, random: 88_172_645_463_325_252 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    fn allocate(&mut self, bytes: u64) -> DevicePtr {
        self.engine.allocate(&mut self.lane, bytes, 0, 0).expect("room for it")
    }

    fn free(&mut self, block: DevicePtr) {
        self.engine.free(&mut self.lane, block).expect("live");
    }

    /// Replaces blocks of up to `most` bytes, `live` at a time, so that what is free is never of the size that is asked.
    fn churn(&mut self, live: u64, most: u64, steps: u64) {
        let mut blocks: Vec<DevicePtr> = Vec::new();
        for _ in 0..steps {
            if blocks.len() as u64 == live {
                let which = self.below(live) as usize;
                let block = blocks.swap_remove(which);
                self.free(block);
            }
            let bytes = 1 + self.below(most);
            blocks.push(self.allocate(bytes));
        }
        blocks.into_iter().for_each(|block| self.free(block));
    }
}

#[test]
fn a_trim_begins_the_promise_anew() {
    let mut job = Job::new();
    let large = job.allocate(20 * GIB);
    job.free(large);
    job.engine.trim();
    job.engine.reset_peaks();
    // Little enough that the promise is not widened.
    job.churn(16, 64 * MIB, 60);
    let stats = job.engine.stats();
    let (held, live) = (stats.reserved_bytes.peak, stats.allocated_bytes.peak);
    assert!(held as f64 <= live as f64 * 1.02 + 32.0 * MIB as f64, "{held} of {live}");
}

#[test]
fn a_job_that_keeps_moving_is_given_more_until_a_trim() {
    let mut job = Job::new();
    let moved = |job: &Job| job.engine.stats().pages_moved;
    job.churn(16, 256 * MIB, 4_000);
    let first = moved(&job);
    for _ in 0..4 {
        job.churn(16, 256 * MIB, 4_000);
    }
    let before = moved(&job);
    job.churn(16, 256 * MIB, 4_000);
    let last = moved(&job) - before;
    assert!(first > 1000 && last * 20 < first, "{first} moved at first, {last} at last");
    let stats = job.engine.stats();
    assert!(stats.reserved_bytes.peak < stats.allocated_bytes.peak * 3, "{stats:?}");
    job.engine.trim();
    assert_eq!(job.engine.stats().reserved_bytes.current, 0);
}
