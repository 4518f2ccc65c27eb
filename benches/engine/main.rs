//! The hit path of the engine on a card that costs nothing. Times for reading; what CI judges are the instructions counted by
//! `scripts/instructions`, which runs this program with a workload's name and a number of rounds instead.
#![allow(missing_docs, reason = "a program")]

mod card;

use std::hint::black_box;

use card::FreeCard;
use cenote::pool::engine::{Engine, EngineSettings, Lane};
use criterion::Criterion;

const SETTINGS: EngineSettings = EngineSettings { total: 141 << 30, limit: None, slack: 0.018 };

/// A workload: makes its state, and returns one round of it.
type Workload = fn() -> Box<dyn FnMut()>;

const WORKLOADS: [(&str, Workload); 5] = [
    ("pair_512", || pair(512)),
    ("pair_1m", || pair(1 << 20)),
    ("pair_20m", || pair(20 << 20)),
    ("mix_1000", || mix(1000, 24)),
    ("mix_36000", || mix(36_000, 20)),
];

fn engine() -> (Engine<FreeCard>, Lane) {
    let engine = Engine::new(FreeCard::default(), SETTINGS);
    let lane = engine.lane();
    (engine, lane)
}

/// Allocates and frees one size.
fn pair(bytes: u64) -> Box<dyn FnMut()> {
    let (engine, mut lane) = engine();
    Box::new(move || {
        let block = engine.allocate(&mut lane, black_box(bytes), 0, 0).expect("a free card");
        engine.free(&mut lane, black_box(block)).expect("live");
    })
}

/// Replaces one of so many live blocks by another of 512 bytes to `1 << most` bytes.
fn mix(live: usize, most: u64) -> Box<dyn FnMut()> {
    let (engine, mut lane) = engine();
    let mut random = 88_172_645_463_325_252u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut blocks = vec![None; live];
    let mut round = move || {
        let slot = (next() % live as u64) as usize;
        if let Some(block) = blocks[slot].take() {
            engine.free(&mut lane, block).expect("live");
        }
        let base = 1 << (9 + next() % (most - 9));
        blocks[slot] = engine.allocate(&mut lane, base + next() % base, 0, 0).ok();
    };
    (0..live * 4).for_each(|_| round());
    Box::new(round)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some(name), Some(rounds)) = (arguments.next(), arguments.next())
        && let Some((_, workload)) = WORKLOADS.iter().find(|(known, _)| *known == name)
        && let Ok(rounds) = rounds.parse::<u64>()
    {
        let mut round = workload();
        (0..rounds).for_each(|_| round());
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (name, workload) in WORKLOADS {
        criterion.bench_function(name, |bencher| bencher.iter(workload()));
    }
    criterion.final_summary();
}
