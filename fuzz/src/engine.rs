//! Operations on the engine, against its naive model and a strict card.

use crate::engine_model::faults::Call;
use crate::engine_model::memory::{MIB, PAGE};
use crate::engine_model::operation::{Block, Op, Wrong, setup};
use crate::engine_model::play::play;

/// Operations of one program.
const LONGEST: usize = 400;

/// Bytes as numbers; 0 where there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end
    }

    fn block(&mut self) -> Block {
        Block::Nth(self.next())
    }
}

/// A card, now and then a call of it that fails, and what a program does.
pub fn engine(data: &[u8]) {
    let mut bytes = Bytes(data);
    let setup = setup(bytes.next() as u64);
    let fails = bytes.next();
    let fault = (fails % 4 == 3)
        .then(|| (Call::ALL[fails / 4 % Call::ALL.len()], bytes.next() as u64, bytes.below(2)));
    let mut ops = Vec::new();
    while !bytes.0.is_empty() && ops.len() < LONGEST {
        ops.push(next(&mut bytes, ops.len(), setup.streams, setup.capacity));
    }
    if let Err(failed) = play(setup, &ops, 16, fault) {
        panic!("{setup:?}, {fault:?}: {failed:#?}");
    }
}

fn next(bytes: &mut Bytes<'_>, name: usize, streams: usize, capacity: u64) -> Op {
    let (kind, wrongs) = (bytes.next(), [Wrong::Inside, Wrong::Freed, Wrong::Foreign]);
    match kind {
        0..96 => {
            let stream = bytes.below(streams);
            let pool = if kind < 88 { 0 } else { 1 + kind as u64 % 2 };
            Op::Allocate { name, bytes: size(bytes, capacity), stream, pool }
        }
        96..160 => Op::Free(bytes.block()),
        160..184 => Op::Launch(bytes.block()),
        184..196 => Op::Use(bytes.block(), bytes.below(streams)),
        196..200 => Op::Announce(bytes.block(), bytes.below(streams)),
        200..220 => Op::Advance { stream: bytes.below(streams), works: 1 + bytes.below(6) as u64 },
        220..226 => Op::EndStream(bytes.below(streams)),
        226..229 => Op::EndPool(1 + bytes.below(2) as u64),
        229..233 => Op::Replay(bytes.block(), bytes.below(streams)),
        233 => Op::FreeWrong(wrongs[bytes.below(3)], bytes.next()),
        234 => Op::AnnounceWrong(wrongs[bytes.below(3)], bytes.next()),
        235..239 => Op::Capture { stream: bytes.below(streams), begin: bytes.below(2) == 0 },
        239 => Op::ResetPeaks,
        240..243 => Op::SwitchLane,
        243..246 => Op::SetLimit(Some(capacity / 256 * bytes.next() as u64)),
        246 => Op::SetLimit(None),
        247..250 => Op::Trim,
        _ => Op::FinishAll,
    }
}

/// Sizes around those where something changes, and all others.
fn size(bytes: &mut Bytes<'_>, capacity: u64) -> u64 {
    let (kind, n) = (bytes.next(), bytes.next() as u64);
    match kind % 8 {
        0 => n,
        1 => 512 * (1 + n),
        2 => (64 << 10) - 512 * 4 + 64 * n,
        3 => (1 + n % 16) * PAGE,
        4 => n * MIB / 16,
        5 => capacity / 256 * n,
        6 => (1 + n) * MIB + kind as u64,
        _ => (n << 8 | bytes.next() as u64) * 1000 + 1,
    }
}
