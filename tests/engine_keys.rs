//! The keys of the configuration in the engine: `roundup_power2_divisions`, `max_split_size_mb` with `max_non_split_rounding_mb`, and
//! `garbage_collection_threshold`. The sizes are those that PyTorch 2.11 was measured with.
#![cfg(feature = "cli")]

use cenote::conf::parse;
use cenote::cuda::{DevicePtr, Failure, StreamHandle};
use cenote::pool::engine::{Engine, EngineSettings, Lane, Rules, Stats};
use cenote::replay::SimCard;

const MIB: u64 = 1 << 20;
/// Memory of the card.
const TOTAL: u64 = 16 << 30;

struct Job {
    engine: Engine<SimCard>,
    lane: Lane,
}

impl Job {
    fn new(conf: &str) -> Self {
        let (settings, problems) = parse(conf);
        assert_eq!(problems, [""; 0]);
        let (limit, slack) = (settings.limit, settings.slack);
        let engine =
            Engine::new(SimCard::new(TOTAL), EngineSettings { total: TOTAL, limit, slack })
                .with_rules(Rules::of(&settings));
        Job { lane: engine.lane(), engine }
    }

    fn on(&mut self, stream: StreamHandle, mib: u64) -> DevicePtr {
        self.engine.allocate(&mut self.lane, mib * MIB, stream, 0).expect("room for it")
    }

    fn get(&mut self, mib: u64) -> DevicePtr {
        self.on(0, mib)
    }

    fn free(&mut self, block: DevicePtr) {
        self.engine.free(&mut self.lane, block).expect("live");
    }

    /// Whether a request is served by what is free as it is.
    fn is_hit(&mut self, mib: u64) -> bool {
        let before = self.stats().misses;
        let block = self.get(mib);
        self.free(block);
        self.stats().misses == before
    }

    fn stats(&self) -> Stats {
        assert_eq!(self.engine.card().violation(), None);
        self.engine.stats()
    }

    fn held(&self) -> u64 {
        self.stats().reserved_bytes.current / MIB
    }
}

#[test]
fn sizes_are_rounded_as_pytorch_does() {
    let mut job = Job::new("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    for (asked, given) in [(300, 300), (600, 768), (1100, 1280), (2100, 2304), (5000, 5120)] {
        let block = job.get(asked);
        let stats = job.stats();
        assert_eq!(stats.allocated_bytes.current, given * MIB);
        assert_eq!(stats.requested_bytes.current, asked * MIB);
        job.free(block);
    }
}

#[test]
fn nothing_is_refused_for_being_rounded_up() {
    let mut job = Job::new("roundup_power2_divisions:2,limit:700MiB");
    assert_eq!(job.engine.block_bytes(600 * MIB), Some(768 * MIB));
    let block = job.get(600);
    let stats = job.stats();
    assert_eq!((stats.allocated_bytes.current, stats.ooms), (600 * MIB, 0));
    job.free(block);
    let refused = job.engine.allocate(&mut job.lane, 701 * MIB, 0, 0);
    assert_eq!((refused, job.stats().ooms), (Err(Failure::OutOfMemory), 1));
    assert_eq!(job.engine.block_bytes(TOTAL - MIB), Some(TOTAL));
    assert_eq!(job.engine.block_bytes(TOTAL + 1), None);
}

/// Whether a request is served by a whole block of 300 MiB, with room to create others.
fn is_served(conf: &str, asked: u64) -> bool {
    let mut job = Job::new(&format!("slack:1,{conf}"));
    let whole = job.get(300);
    job.free(whole);
    // Something else was freed last.
    let other = job.get(1);
    job.free(other);
    let held = job.held();
    let is_same = job.get(asked) == whole;
    assert_eq!(is_same, job.held() == held, "{asked} MiB");
    is_same
}

#[test]
fn a_whole_block_serves_what_pytorchs_serves() {
    for (asked, served) in [(100, false), (200, false), (279, false), (280, false), (281, true)] {
        assert_eq!(is_served("max_split_size_mb:200", asked), served, "{asked}");
    }
    assert!(is_served("max_split_size_mb:200", 300));
    let wider = "max_split_size_mb:200,max_non_split_rounding_mb:60";
    for (asked, served) in [(199, false), (240, false), (250, true), (300, true)] {
        assert_eq!(is_served(wider, asked), served, "{asked}");
    }
    assert!(is_served("max_split_size_mb:301", 100), "it is not that large");
}

#[test]
fn what_a_smaller_request_left_is_there_for_the_next() {
    let mut job = Job::new("slack:1,max_split_size_mb:200");
    let whole = job.get(300);
    let wall = job.get(1);
    job.free(whole);
    assert_eq!(job.get(290), whole);
    assert!(!job.is_hit(9), "the rest of a whole block serves nobody else");
    job.free(whole);
    assert_eq!(job.get(300), whole);
    job.free(wall);
}

#[test]
fn whole_blocks_give_memory_before_more_is_held() {
    let mut job = Job::new("max_split_size_mb:200");
    let whole = job.get(300);
    job.free(whole);
    let blocks: Vec<_> = (0..10).map(|_| job.get(28)).collect();
    assert_eq!(job.held(), 300);
    // Another stream's too.
    let mut other = Job::new("max_split_size_mb:200");
    let whole = other.get(300);
    other.free(whole);
    other.on(7, 290);
    assert!(other.held() <= 306, "{} MiB", other.held());
    blocks.into_iter().for_each(|block| job.free(block));
    job.engine.trim();
    assert_eq!(job.held(), 0);
}

#[test]
fn two_whole_blocks_make_room_for_a_larger_one() {
    let mut job = Job::new("max_split_size_mb:100");
    let (one, two) = (job.get(200), job.get(200));
    job.free(one);
    job.free(two);
    job.get(400);
    assert_eq!(job.held(), 400);
}

/// Blocks of 100 MiB on a card of 1000, freed in their order, each when another was asked for since.
fn filled(conf: &str) -> (Job, Vec<DevicePtr>) {
    let mut job = Job::new(&format!("slack:1,limit:1000MiB,max_split_size_mb:100,{conf}"));
    let blocks: Vec<_> = (0..6).map(|_| job.get(100)).collect();
    for &block in &blocks {
        job.free(block);
        let other = job.on(1, 1);
        job.free(other);
    }
    (job, blocks)
}

#[test]
fn above_the_threshold_the_longest_idle_goes_back_and_no_more_than_that() {
    let (mut job, blocks) = filled("garbage_collection_threshold:0.63");
    let held = job.held();
    assert!((600..=604).contains(&held), "{held}");
    job.get(60);
    let stats = job.stats();
    // 660 would be held, and 630 may.
    let given = stats.collected_bytes / MIB;
    assert!((30..=40).contains(&given) && job.held() <= 630, "{given} MiB: {}", job.held());
    for &block in &blocks[1..] {
        assert!(blocks[1..].contains(&job.get(100)), "{block:#x}: only the oldest is gone");
    }
    assert_eq!(job.stats().misses, stats.misses);
}

#[test]
fn without_a_threshold_or_below_it_nothing_goes_back() {
    for conf in ["garbage_collection_threshold:0.9", "retain:0"] {
        let (mut job, _) = filled(conf);
        job.get(60);
        assert_eq!((job.stats().collected_bytes, job.stats().reserved_bytes.freed), (0, 0));
    }
}

#[test]
fn the_threshold_is_of_the_card_where_there_is_no_limit() {
    let mut job = Job::new("slack:1,max_split_size_mb:20,garbage_collection_threshold:0.05");
    let block = job.get(800);
    job.free(block);
    let live = job.get(700);
    assert!(job.held() <= 819, "5 % of 16 GiB, not {} MiB", job.held());
    // What is in use stays, and nothing is refused for the threshold.
    job.get(500);
    assert!(job.held() >= 1200);
    job.free(live);
}

#[test]
fn what_lies_in_an_idle_stream_ages_too() {
    let mut job =
        Job::new("slack:1,limit:1000MiB,max_split_size_mb:100,garbage_collection_threshold:0.65");
    let (old, young) = (job.on(1, 300), job.get(300));
    job.free(old);
    for _ in 0..100 {
        let other = job.get(1);
        job.free(other);
    }
    job.free(young);
    job.get(99);
    assert_eq!(job.get(300), young);
    let misses = job.stats().misses;
    job.on(1, 300);
    assert_eq!(job.stats().misses, misses + 1, "the older one gave");
}
