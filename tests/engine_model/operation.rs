//! What a program may do, and sequences of it: the same seed gives the same.

use cenote::pool::engine::Rules;

use super::memory::{MIB, PAGE};

/// A block that a step is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Block {
    /// The n-th live one, modulo how many there are.
    Nth(usize),
    /// The one of this name, if it lives: so that the step still means the same when others are left out.
    Named(usize),
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Allocate {
        name: usize,
        bytes: u64,
        stream: usize,
        pool: u64,
    },
    Free(Block),
    /// An address inside a block, one freed before, or none of ours.
    FreeWrong(Wrong, usize),
    Launch(Block),
    /// Announced and launched on another stream.
    Use(Block, usize),
    /// Launched by a graph on a stream, and not announced, if the block is in a private pool that has not ended.
    Replay(Block, usize),
    /// Announced only.
    Announce(Block, usize),
    AnnounceWrong(Wrong, usize),
    Advance {
        stream: usize,
        works: u64,
    },
    FinishAll,
    Trim,
    SetLimit(Option<u64>),
    ResetPeaks,
    Capture {
        stream: usize,
        begin: bool,
    },
    /// Destroys a stream that does not capture. The next use of its handle is of a new one.
    EndStream(usize),
    /// The last graph of a private pool is gone. The next use of its number is of a new one.
    EndPool(u64),
    /// The program goes on with the other set of counters, as a second thread would.
    SwitchLane,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Inside,
    Freed,
    Foreign,
}

/// A program and its card.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    /// What the card says it has.
    pub(crate) total: u64,
    /// What it gives: others use it too.
    pub(crate) capacity: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) slack: f64,
    pub(crate) streams: usize,
    pub(crate) most_live: usize,
    pub(crate) captures: bool,
    pub(crate) lanes: usize,
    /// Works that are done at a time, at most.
    pub(crate) haste: u64,
    pub(crate) rules: Rules,
}

/// Dice that are the same in every run: xorshift*.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % end.max(1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// The card of a seed: from one that is soon full to one whose handles are large.
pub(crate) fn setup(seed: u64) -> Setup {
    let dice = &mut Dice::new(seed ^ 0x5e7);
    let capacity = dice.pick(&[32, 128, 300, 1024, 1024, 16 << 10, 40 << 10]) * MIB;
    let limit = dice.pick(&[None, None, Some(capacity / 2), Some(capacity * 3 / 4 + 5)]);
    Setup {
        total: dice.pick(&[capacity, capacity + capacity / 4]),
        capacity,
        limit,
        slack: dice.pick(&[0.0, 0.05, 0.5]),
        streams: dice.pick(&[1, 2, 4, 4, 6]),
        most_live: dice.pick(&[12, 40, 80]),
        captures: dice.roll(3) == 0,
        lanes: dice.pick(&[1, 1, 2]),
        haste: dice.pick(&[1, 2, 6]),
        rules: Rules {
            max_split_size: dice.pick(&[None, None, Some(64 << 10), Some(MIB), Some(20 * MIB)]),
            max_non_split_rounding: dice.pick(&[512, MIB, 20 * MIB]),
            collect_above: dice.pick(&[None, None, Some(0.1), Some(0.6)]),
            ..Rules::NONE
        },
    }
}

/// Sizes of one program.
struct Sizes {
    palette: [u64; 4],
    growing: u64,
    most: u64,
}

impl Sizes {
    fn next(&mut self, dice: &mut Dice) -> u64 {
        let bytes = match dice.roll(100) {
            0..30 => dice.pick(&self.palette),
            30..40 => dice.roll(1100),
            40..52 => 512 + dice.roll(64 << 10),
            52..60 => (64 << 10) - 1024 + dice.roll(2048),
            60..76 => 1 + dice.roll(8 * MIB),
            76..86 => {
                self.growing += self.growing / 24 + dice.roll(4096);
                if self.growing > self.most / 2 {
                    self.growing = MIB;
                }
                self.growing
            }
            86..96 => 1 + dice.roll(self.most / 4),
            _ => 1 + dice.roll(self.most),
        };
        bytes.min(self.most)
    }
}

/// A sequence of operations.
pub(crate) fn sequence(seed: u64, length: usize) -> Vec<Op> {
    let setup = setup(seed);
    let dice = &mut Dice::new(seed);
    let most = (setup.capacity / 3).min(900 * MIB);
    let any = [512, 40_000, 64 << 10, MIB, PAGE, 3 * MIB + 7, 20 * MIB, 64 * MIB, most / 5];
    let palette = std::array::from_fn(|_| dice.pick(&any));
    let mut sizes = Sizes { palette, growing: MIB, most };
    let mut captures = vec![false; setup.streams];
    let mut likes_to_allocate = 36;
    let mut operations = Vec::with_capacity(length);
    for step in 0..length {
        if step % 150 == 0 {
            likes_to_allocate = dice.pick(&[22, 36, 36, 48]);
        }
        let mut op = next(setup, dice, &mut sizes, &mut captures, likes_to_allocate);
        if let Op::Allocate { name, .. } = &mut op {
            *name = step;
        }
        operations.push(op);
    }
    operations
}

fn next(
    setup: Setup,
    dice: &mut Dice,
    sizes: &mut Sizes,
    captures: &mut [bool],
    likes_to_allocate: u64,
) -> Op {
    let stream = dice.roll(setup.streams as u64) as usize;
    let n = dice.roll(1 << 20) as usize;
    let block = Block::Nth(n);
    let roll = dice.roll(100);
    if roll < likes_to_allocate {
        let pool = dice.pick(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        return Op::Allocate { name: 0, bytes: sizes.next(dice), stream, pool };
    }
    match roll {
        ..66 => Op::Free(block),
        66..80 => Op::Launch(block),
        80..84 => Op::Use(block, stream),
        84 => Op::Announce(block, stream),
        85..92 => Op::Advance { stream, works: 1 + dice.roll(setup.haste) },
        92 => match n % 8 {
            0..3 => Op::EndStream(stream),
            3 => Op::EndPool(1 + (n / 8 % 2) as u64),
            _ => Op::Replay(block, stream),
        },
        93 => Op::FreeWrong(dice.pick(&[Wrong::Inside, Wrong::Freed, Wrong::Foreign]), n),
        94 => Op::AnnounceWrong(dice.pick(&[Wrong::Inside, Wrong::Freed, Wrong::Foreign]), n),
        95 if setup.captures => {
            captures[stream] = !captures[stream];
            Op::Capture { stream, begin: captures[stream] }
        }
        96 => Op::ResetPeaks,
        97 if n.is_multiple_of(4) => Op::Trim,
        97 if setup.lanes == 2 => Op::SwitchLane,
        98 if n.is_multiple_of(3) => {
            let limit = setup.capacity / 4 + dice.roll(setup.capacity);
            Op::SetLimit(dice.pick(&[None, setup.limit, Some(limit)]))
        }
        99 if n.is_multiple_of(3) => Op::FinishAll,
        _ => Op::Free(block),
    }
}
