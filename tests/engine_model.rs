//! The engine against a naive model of a program and a strict card with time of its own: the promises of its contract.
//!
//! `CENOTE_MODEL_STEPS` sets how many operations the long run has; `CENOTE_MODEL_SEED` plays the program of one seed alone.

mod engine_model {
    pub(crate) mod card;
    pub(crate) mod checks;
    pub(crate) mod ends;
    pub(crate) mod faults;
    pub(crate) mod known;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod play;
    pub(crate) mod threads;
    pub(crate) mod time;
    pub(crate) mod uses;
    pub(crate) mod world;
}

use engine_model::faults::Call;
use engine_model::{ends, known, operation, play, threads};

/// Operations of one program.
const LENGTH: usize = 2000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn steps() -> u64 {
    number("CENOTE_MODEL_STEPS").unwrap_or(200_000)
}

#[test]
fn programs_on_a_sound_card() {
    let programs = match number("CENOTE_MODEL_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=steps().div_ceil(LENGTH as u64),
    };
    programs.for_each(|seed| _ = play::seed(seed, LENGTH));
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
        let sound = match play::play(setup, &ops, 16, None) {
            Ok(sound) => sound,
            Err(failed) => play::report(seed, setup, failed, None),
        };
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
fn programs_that_failed_once() {
    known::all();
}

#[test]
fn four_threads() {
    threads::run(steps() / 2);
}

#[test]
fn streams_of_threads_come_and_go() {
    threads::come_and_go(500);
}

#[test]
fn streams_one_after_another() {
    ends::one_after_another(3000, false);
}

#[test]
fn pools_one_after_another() {
    ends::one_after_another(3000, true);
}

#[test]
fn a_peak_of_two_threads() {
    ends::peak_of_two_threads();
}

#[test]
fn a_peak_beside_a_busy_thread() {
    ends::peak_beside_a_busy_thread();
}
