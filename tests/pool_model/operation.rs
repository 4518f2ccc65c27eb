//! What a program, its threads and its card may do next.

use proptest::prelude::*;

use super::faults::{CODES, Call};
use super::memory::MIB;

/// One operation. Blocks and other choices are numbers, taken modulo what there is.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Allocate(u64),
    /// Work on a stream over a live block, for some microseconds.
    Launch {
        stream: usize,
        block: usize,
        micros: u64,
    },
    Free(usize),
    /// A free of a block that was freed before.
    FreeTwice(usize),
    /// A free of an address within a live block.
    FreeInside {
        block: usize,
        offset: u64,
    },
    /// A free of an address that may be anything.
    FreeForeign(u64),
    BeginCapture,
    EndCapture,
    Settle,
    ReleaseIdle {
        idle_ms: u64,
        retain: u64,
    },
    ReleaseAll,
    ReleaseWhileIdle {
        idle_ms: u64,
        retain: u64,
    },
    AskIdle,
    Export(usize),
    /// Time passes.
    Advance(u64),
    /// All work is done.
    Drain,
    /// Other processes of the card leave this much.
    Capacity(u64),
    /// The n-th call of a kind fails.
    Fault {
        call: usize,
        n: u64,
        code: usize,
    },
    /// The context breaks: every call fails until it dies.
    Break,
    StopSlabs,
    StopRecycling,
    /// The context dies, and a new one with this configuration begins.
    Bury(usize),
    /// In the next operation, at this moment, another thread does something.
    Intrude {
        moment: u32,
        others: Vec<Operation>,
    },
}

/// Operations in order; printed on a line each.
#[derive(Clone)]
pub(crate) struct Sequence(pub(crate) Vec<Operation>);

impl std::fmt::Debug for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|operation| write!(f, "\n    {operation:?}"))
    }
}

/// Sequences of up to so many operations.
pub(crate) fn sequence(
    operation: impl Strategy<Value = Operation>,
    most: usize,
) -> impl Strategy<Value = Sequence> {
    proptest::collection::vec(operation, 1..most).prop_map(Sequence)
}

use Operation::*;

/// Sizes that come again and again, as a program has them.
const FAVOURITES: [u64; 8] = [1, 512, 12_345, 300_000, MIB, 2 * MIB, 4 * MIB + 1, 20 * MIB];

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => proptest::sample::select(FAVOURITES.as_slice()),
        2 => 1..=4096_u64,
        2 => 1..MIB,
        1 => MIB - 2..=MIB + 2,
        1 => 2 * MIB - 2..=2 * MIB + 2,
        2 => 1..16 * MIB,
        1 => 1..=64 * MIB,
        1 => (1..=32_u64).prop_map(|n| n * 2 * MIB),
    ]
}

/// Operations of a program that does nothing wrong on a driver that never fails, and of one thread.
pub(crate) fn lawful() -> impl Strategy<Value = Operation> + Clone {
    let launch =
        (0..4_usize, 0..64_usize, prop_oneof![99 => 1..30_000_u64, 1 => Just(600_000_000)]);
    let idle = (0..40_u64, prop_oneof![Just(0), 0..128 * MIB]);
    let while_idle = idle.clone();
    let while_idle = while_idle.prop_map(|(idle_ms, retain)| ReleaseWhileIdle { idle_ms, retain });
    prop_oneof![
        60 => size().prop_map(Allocate).boxed(),
        40 => launch.prop_map(|(stream, block, micros)| Launch { stream, block, micros }),
        55 => (0..64_usize).prop_map(Free),
        20 => (1..20_000_u64).prop_map(Advance),
        6 => Just(Settle),
        3 => idle.prop_map(|(idle_ms, retain)| ReleaseIdle { idle_ms, retain }),
        3 => while_idle,
        1 => Just(ReleaseAll),
        3 => Just(AskIdle),
        2 => (0..64_usize).prop_map(Export),
        2 => Just(Drain),
        2 => (48..512_u64).prop_map(|n| Capacity(n * MIB)),
    ]
    .boxed()
}

/// Everything that may happen to one thread.
pub(crate) fn any() -> impl Strategy<Value = Operation> + Clone {
    let fault = (0..Call::ALL.len(), 0..3_u64, 0..CODES.len());
    let inside = (0..64_usize, 1..64 * MIB);
    prop_oneof![
        180 => lawful(),
        3 => (0..64_usize).prop_map(FreeTwice),
        2 => inside.prop_map(|(block, offset)| FreeInside { block, offset }),
        2 => any_address().prop_map(FreeForeign),
        3 => Just(BeginCapture),
        6 => Just(EndCapture),
        4 => fault.prop_map(|(call, n, code)| Fault { call, n, code }),
    ]
    .boxed()
}

/// The same, and contexts break and die.
pub(crate) fn with_deaths() -> impl Strategy<Value = Operation> + Clone {
    prop_oneof![
        800 => any(),
        1 => Just(Break),
        1 => Just(StopSlabs),
        1 => Just(StopRecycling),
        4 => (0..CONFIGURATIONS).prop_map(Bury),
    ]
    .boxed()
}

/// Operations of several threads.
pub(crate) fn with_intruders() -> impl Strategy<Value = Operation> + Clone {
    let other = prop_oneof![12 => lawful(), 1 => Just(BeginCapture), 1 => Just(EndCapture)];
    let others = proptest::collection::vec(other, 1..6);
    prop_oneof![
        20 => any(),
        10 => (0..6_u32, others).prop_map(|(moment, others)| Intrude { moment, others }),
    ]
    .boxed()
}

fn any_address() -> impl Strategy<Value = u64> {
    prop_oneof![0..4096_u64, 0x7_0000_0000..0x7_0000_0000 + 600 * MIB, Just(u64::MAX)]
}

/// How many configurations `machine::config` knows.
pub(crate) const CONFIGURATIONS: usize = 6;
