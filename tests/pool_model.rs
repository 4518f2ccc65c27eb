//! The pool against a naive model of a program and a strict card: the promises of its contract, after every operation.
//!
//! `CENOTE_POOL_OPERATIONS` sets the length of the long run, and with it that of the others.

mod pool_model {
    pub(crate) mod calls;
    pub(crate) mod checks;
    pub(crate) mod driver;
    pub(crate) mod faults;
    pub(crate) mod intruder;
    pub(crate) mod machine;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod threads;
    pub(crate) mod world;
}

use pool_model::machine::Machine;
use pool_model::memory::MIB;
use pool_model::operation::{self, Operation};
use pool_model::{checks, intruder, threads};
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

/// Operations of the long run; the other tests grow with it.
fn operations() -> u32 {
    let set = std::env::var("CENOTE_POOL_OPERATIONS").ok().and_then(|n| n.parse().ok());
    set.unwrap_or(200_000)
}

fn cases() -> Config {
    let cases = operations() / 1000;
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_lawful_program_on_a_sound_driver(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in operation::sequence(operation::lawful(), 200),
    ) {
        let first = run(config, capacity, &operations.0);
        prop_assert_eq!(first, run(config, capacity, &operations.0), "the same calls, other answers");
    }

    #[test]
    fn wrong_frees_captures_and_failing_calls(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in operation::sequence(operation::any(), 200),
    ) {
        let first = run(config, capacity, &operations.0);
        prop_assert_eq!(first, run(config, capacity, &operations.0), "the same calls, other answers");
    }

    #[test]
    fn other_threads_at_the_worst_moment(
        config in 0..operation::CONFIGURATIONS,
        capacity in (48..512_u64).prop_map(|n| n * MIB),
        operations in operation::sequence(operation::with_intruders(), 200),
    ) {
        run(config, capacity, &operations.0);
    }
}

#[test]
fn a_long_run() {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = operation::with_deaths();
    let mut machine = Machine::new(0, 256 * MIB);
    for _ in 0..operations() {
        let operation = strategy.new_tree(&mut runner).expect("an operation").current();
        machine.trace.borrow_mut().clear();
        machine = machine.step(&operation);
    }
    checks::end(&machine);
}

#[test]
fn eight_threads() {
    let time = std::time::Duration::from_millis(1500);
    let operations = threads::run(0, time) + threads::run(3, time);
    assert!(operations > 1000, "{operations} operations");
}

#[test]
fn a_full_slab_does_not_hide_the_ready_slot_of_another() {
    use Operation::*;
    let fill = [Allocate(600_000), Allocate(600_000), Allocate(600_000)];
    let small = std::iter::repeat_n(Allocate(300_000), 6);
    let last = [Free(0), Allocate(300_000)];
    let operations: Vec<_> = fill.into_iter().chain(small).chain(last).collect();
    let answers = run(0, 4 * MIB, &operations);
    assert_eq!(answers.last(), answers.first());
}

#[test]
fn a_slab_slot_serves_a_request_of_its_very_size() {
    use Operation::*;
    let answers = run(0, 2 * MIB, &[Allocate(MIB - 1), Allocate(MIB - 1), Free(0), Allocate(MIB)]);
    assert_eq!(answers.last(), answers.first());
}

#[test]
fn a_dead_pool_does_not_synchronise() {
    run(2, 4 * MIB, &[Operation::Allocate(MIB), Operation::Bury(0)]);
}

#[test]
fn work_that_began_during_a_synchronise_is_not_done_after_it() {
    use Operation::*;
    let launch = |block| Launch { stream: 0, block, micros: 1000 };
    // The card has room for one slab, and the last of its four slots waits.
    let mut operations = vec![Allocate(500_000); 4];
    operations.extend([launch(3), Free(3)]);
    // While the ladder waits for it, another thread frees a slot; while it then synchronises for that slot,
    // the other thread starts work on the next one and frees it too.
    operations.push(Intrude { moment: 2, others: vec![Free(0)] });
    operations.push(Intrude { moment: 2, others: vec![launch(0), Free(0)] });
    operations.extend([Allocate(500_000), Allocate(500_000)]);
    run(0, 2 * MIB, &operations);
}
