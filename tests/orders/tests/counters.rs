//! The engine's counters in every order of a few threads, with every value that an atomic may still give. Built and run by
//! `scripts/orders`.
#![cfg(cenote_loom)]
#![allow(dead_code, reason = "the engine uses the rest")]

#[path = "../../../src/pool/engine/lanes.rs"]
mod lanes;
#[path = "../../../src/pool/engine/stats.rs"]
mod stats;
#[path = "../../../src/pool/engine/sync.rs"]
mod sync;

use lanes::{Lanes, What};
use loom::sync::Arc;

/// A thread counts and ends while others begin: what it counted stays, to the byte.
#[test]
fn what_an_ended_thread_counted_stays() {
    loom::model(|| {
        let lanes = Arc::new(Lanes::default());
        let theirs = Arc::clone(&lanes);
        let thread = loom::thread::spawn(move || {
            let mut lane = theirs.lane();
            theirs.add(&mut lane, false, [512, 500, 1]);
            theirs.sub(&mut lane, false, [512, 500, 1]);
            theirs.add(&mut lane, false, [1024, 1000, 1]);
        });
        // Each looks for those that ended, and puts their numbers together.
        drop(lanes.lane());
        drop(lanes.lane());
        drop(lanes.lane());
        thread.join().unwrap();
        let count = lanes.count(What::Allocated);
        assert_eq!((count.current, count.allocated, count.freed), (1024, 1536, 512));
    });
}

/// Two threads at once: the sums are exact once both are done, and the peak lies between what one had and what both had.
#[test]
fn two_threads_count_to_the_byte() {
    loom::model(|| {
        let lanes = Arc::new(Lanes::default());
        let (mut mine, mut other) = (lanes.lane(), lanes.lane());
        let theirs = Arc::clone(&lanes);
        let thread = loom::thread::spawn(move || theirs.add(&mut other, false, [512, 500, 1]));
        lanes.add(&mut mine, false, [1024, 1000, 1]);
        thread.join().unwrap();
        let count = lanes.count(What::Allocated);
        assert_eq!((count.current, count.allocated, count.freed), (1536, 1536, 0));
        assert!((1024..=1536).contains(&count.peak), "{count:?}");
    });
}
