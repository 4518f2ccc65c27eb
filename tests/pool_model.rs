//! The pool against a naive model of a program and a strict card: the promises of its contract, after every operation.
//!
//! `CENOTE_POOL_OPERATIONS` sets the length of the long run.

mod pool_model {
    pub(crate) mod checks;
    pub(crate) mod driver;
    pub(crate) mod faults;
    pub(crate) mod intruder;
    pub(crate) mod machine;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod world;
}

use std::rc::Rc;

use pool_model::machine::Machine;
use pool_model::memory::MIB;
use pool_model::operation::{self, Operation};
use pool_model::{checks, intruder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn run(config: usize, capacity: u64, operations: &[Operation]) -> Vec<u64> {
    intruder::cancel();
    let mut machine = Machine::new(config, capacity);
    for operation in operations {
        machine = machine.step(operation);
    }
    checks::end(&machine);
    machine.trace.take()
}

fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_lawful_program_on_a_sound_driver(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in vec(operation::lawful(), 1..200),
    ) {
        let first = run(config, capacity, &operations);
        prop_assert_eq!(first, run(config, capacity, &operations), "the same calls, other answers");
    }

    #[test]
    fn wrong_frees_captures_and_failing_calls(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in vec(operation::any(), 1..200),
    ) {
        let first = run(config, capacity, &operations);
        prop_assert_eq!(first, run(config, capacity, &operations), "the same calls, other answers");
    }

    #[test]
    fn other_threads_at_the_worst_moment(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in vec(operation::with_intruders(), 1..200),
    ) {
        run(config, capacity, &operations);
    }
}

#[test]
fn a_long_run() {
    let length = std::env::var("CENOTE_POOL_OPERATIONS").ok().and_then(|n| n.parse().ok());
    let length: u64 = length.unwrap_or(200_000);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = operation::with_deaths();
    let mut machine = Machine::new(0, 256 * MIB);
    let mut last: std::collections::VecDeque<Operation> = Default::default();
    for n in 0..length {
        let operation = strategy.new_tree(&mut runner).expect("an operation").current();
        last.push_back(operation.clone());
        last.truncate(1);
        machine.trace.borrow_mut().clear();
        machine = machine.step(&operation);
        let _ = n;
    }
    checks::end(&machine);
    assert_eq!(Rc::strong_count(&machine), 1);
}
