//! The engine against a naive model of a program and a strict card with time of its own: the promises of its contract.
//!
//! `CENOTE_MODEL_STEPS` sets how many operations the long run has.

mod engine_model {
    pub(crate) mod card;
    pub(crate) mod checks;
    pub(crate) mod faults;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod play;
    pub(crate) mod threads;
    pub(crate) mod time;
    pub(crate) mod world;
}

use engine_model::faults::Call;
use engine_model::{operation, play, threads};

/// Operations of one program.
const LENGTH: usize = 2000;

fn steps() -> u64 {
    let set = std::env::var("CENOTE_MODEL_STEPS").ok().and_then(|n| n.parse().ok());
    set.unwrap_or(200_000)
}

#[test]
fn programs_on_a_sound_card() {
    let programs = steps().div_ceil(LENGTH as u64);
    (1..=programs).for_each(|seed| _ = play::seed(seed, LENGTH));
}

#[test]
fn equal_programs_get_equal_answers() {
    for seed in 1..=4 {
        assert_eq!(play::seed(seed, LENGTH), play::seed(seed, LENGTH), "seed {seed}");
    }
}

/// Every call of a short program fails once, in both ways.
#[test]
fn every_call_fails_once() {
    for seed in 1..=3 {
        let (setup, ops) = (operation::setup(seed), operation::sequence(seed, 120));
        let Ok(sound) = play::play(setup, &ops, 16, None) else { return };
        for call in Call::ALL {
            for n in 0..sound.engine.card().state().faults.count(call) {
                for code in 0..2 {
                    let fault = Some((call, n, code));
                    if let Err(failed) = play::play(setup, &ops, 16, fault) {
                        play::report(seed, setup, failed, fault);
                    }
                }
            }
        }
    }
}

#[test]
fn four_threads() {
    threads::run(steps() / 2);
}

#[test]
fn survey() {
    std::panic::set_hook(Box::new(|_| {}));
    let first: u64 = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for seed in first..first + 2000 {
        let (setup, ops) = (operation::setup(seed), operation::sequence(seed, LENGTH));
        let t = std::time::Instant::now();
        match play::play(setup, &ops, 64, None) {
            Ok(w) => {
                if std::env::var("ALL").is_ok() {
                    let s = w.stats();
                    println!(
                        "{seed} ok {:?} ooms {} moved {} misses {} cap {}",
                        t.elapsed(),
                        s.ooms,
                        s.pages_moved,
                        s.misses,
                        setup.capacity >> 20
                    )
                }
            }
            Err(f) => {
                println!("{seed} FAIL {:?} cap {} limit {:?}", f, setup.capacity >> 20, setup.limit)
            }
        }
    }
}

#[test]
fn one() {
    let first: u64 = std::env::var("FIRST").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    play::seed(first, LENGTH);
}
