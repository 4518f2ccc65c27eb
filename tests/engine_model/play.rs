//! Plays a sequence, and makes one that fails short.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::checks;
use super::faults::{CODES, Call};
use super::operation::{Op, Setup, sequence, setup};
use super::world::World;

/// A call that is to fail: which one of its kind, and with what.
pub(crate) type Fault = Option<(Call, u64, usize)>;

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) why: String,
    /// The operations up to the one that failed, with the names of their blocks.
    ops: Vec<Op>,
}

/// Plays operations, with a full check after every so many. Gives the world as it was at the end.
pub(crate) fn play(setup: Setup, ops: &[Op], every: usize, fault: Fault) -> Result<World, Failed> {
    let mut world = World::new(setup);
    if let Some((call, n, code)) = fault {
        world.engine.card().state().faults.order(call, n, CODES[code]);
    }
    let play = AssertUnwindSafe(|| -> Result<(), String> {
        for (at, op) in ops.iter().enumerate() {
            world.step(*op)?;
            if at % every == 0 {
                checks::full(&world)?;
            }
        }
        checks::full(&world)?;
        checks::end(&mut world)
    });
    let answer = catch_unwind(play).unwrap_or_else(|_| Err("a panic".to_owned()));
    match answer {
        Ok(()) => Ok(world),
        Err(why) => Err(Failed { why, ops: world.named }),
    }
}

/// What is left of a message without its numbers: another failure is not the same with fewer operations.
fn kind(why: &str) -> String {
    why.split(|c: char| c.is_ascii_digit() || c == '{')
        .map(|part| part.get(..9).unwrap_or(part))
        .take(2)
        .collect()
}

/// Leaves out what the failure does not need.
fn shrink(setup: Setup, mut failed: Failed, fault: Fault) -> Failed {
    let (mut length, mut plays) = (failed.ops.len(), 0);
    let kind_of_failure = kind(&failed.why);
    while length > 0 && plays < 5000 {
        let (mut begin, mut is_shorter) = (0, false);
        while begin < failed.ops.len() && plays < 5000 {
            let mut fewer = failed.ops.clone();
            fewer.drain(begin..(begin + length).min(fewer.len()));
            plays += 1;
            match play(setup, &fewer, 1, fault) {
                Err(other) if kind(&other.why) == kind_of_failure => {
                    (failed, is_shorter) = (other, true);
                }
                _ => begin += length,
            }
        }
        length = if is_shorter && length == 1 { 1 } else { length / 2 };
    }
    failed
}

/// Fails with a sequence that is as short as can be.
pub(crate) fn report(seed: u64, setup: Setup, failed: Failed, fault: Fault) -> ! {
    let (first, length) = (failed.why.clone(), failed.ops.len());
    let last = format!("{:?}", &failed.ops[length.saturating_sub(8)..]);
    let failed = shrink(Setup { most_live: usize::MAX, ..setup }, failed, fault);
    let lines: Vec<_> = failed.ops.iter().map(|op| format!("    {op:?}")).collect();
    let lines = lines.join("\n");
    panic!(
        "seed {seed}, {setup:?}, fault {fault:?}\noperation {length}: {first}\nlast operations: {last}\n\
         in short: {}\n{lines}\n",
        failed.why
    );
}

/// Plays the sequence of a seed. Returns the answers.
pub(crate) fn seed(seed: u64, length: usize) -> Vec<u64> {
    let (setup, ops) = (setup(seed), sequence(seed, length));
    match play(setup, &ops, 64, None) {
        Ok(world) => world.trace,
        Err(failed) => report(seed, setup, failed, None),
    }
}
