//! Programs that the engine once failed, in short.

use cenote::pool::engine::Rules;

use super::memory::MIB;
use super::operation::{Block::Named, Op, Setup};
use super::play;

fn allocate(name: usize, bytes: u64, stream: usize, pool: u64) -> Op {
    Op::Allocate { name, bytes, stream, pool }
}

fn check(what: &str, capacity: u64, slack: f64, ops: &[Op]) {
    check_shared(what, capacity, capacity, slack, ops);
}

/// On a card of which others use a part.
fn check_shared(what: &str, total: u64, capacity: u64, slack: f64, ops: &[Op]) {
    let setup = Setup {
        total,
        capacity,
        limit: None,
        slack,
        streams: 6,
        most_live: usize::MAX,
        captures: false,
        lanes: 1,
        haste: 1,
        rules: Rules::NONE,
    };
    if let Err(failed) = play::play(setup, ops, 1, None) {
        panic!("{what}: {failed:?}");
    }
}

pub(crate) fn all() {
    let large = 40 << 10;
    // Handles of 2 and of 4 MiB were taken, and the last one was not needed.
    check(
        "memory that was taken for a stream, left over, and given to another one",
        large * MIB,
        0.05,
        &[
            allocate(0, 67_108_864, 3, 0),
            allocate(1, 105_445_852, 1, 1),
            allocate(2, 67_108_864, 3, 0),
            allocate(3, 30_418_137, 0, 0),
            Op::Launch(Named(3)),
            Op::Free(Named(3)),
            Op::Free(Named(2)),
            Op::Launch(Named(0)),
            allocate(4, 388, 2, 0),
            allocate(5, 702_786_924, 1, 0),
            allocate(6, 65_536, 0, 0),
            allocate(7, 93_291_560, 0, 0),
            Op::Free(Named(7)),
            allocate(8, 67_108_864, 0, 1),
            allocate(9, 5_358_991, 2, 0),
        ],
    );
    check(
        "a block that another stream used is not waited for",
        32 * MIB,
        0.05,
        &[
            allocate(0, 1_472_429, 4, 0),
            allocate(1, 66_305, 0, 0),
            allocate(2, 7_205_962, 0, 0),
            allocate(3, 4_205_515, 5, 0),
            allocate(4, 1_048_576, 4, 0),
            allocate(5, 2_218_996, 0, 0),
            allocate(6, 3_145_735, 0, 0),
            allocate(7, 1_740_173, 1, 0),
            allocate(8, 1_048_576, 0, 0),
            allocate(9, 40_000, 5, 0),
            Op::Use(Named(3), 4),
            Op::Use(Named(0), 5),
            allocate(10, 556, 1, 0),
            Op::Free(Named(3)),
            allocate(11, 3_145_735, 0, 0),
        ],
    );
    check(
        "memory that was moved for a request that was refused, and given to another stream",
        32 * MIB,
        0.0,
        &[
            allocate(0, 2 * MIB, 1, 0),
            allocate(1, 2 * MIB, 1, 0),
            allocate(2, 20 * MIB, 0, 0),
            Op::Launch(Named(0)),
            // So that a wait does not help.
            Op::Capture { stream: 1, begin: true },
            Op::Free(Named(0)),
            allocate(3, 12 * MIB, 1, 0),
            allocate(4, 10 * MIB, 0, 0),
        ],
    );
    check(
        "a handle of the wrong size is not replaced above a lowered limit",
        16 << 30,
        0.05,
        &[
            allocate(0, 922_383_401, 5, 1),
            allocate(1, 64_697_493, 3, 0),
            allocate(2, 467_405_286, 1, 1),
            allocate(3, 572_227_182, 4, 0),
            allocate(4, 518_802_006, 3, 0),
            allocate(5, 124_731_579, 2, 0),
            allocate(6, 920_601_292, 1, 0),
            allocate(7, 553_753_765, 4, 0),
            allocate(8, 231_732_995, 4, 0),
            Op::Free(Named(3)),
            Op::SetLimit(Some(4_337_258_791)),
            allocate(9, 838, 4, 0),
        ],
    );
    check_shared(
        "handles of the wrong size are not replaced on a card that is full, where no limit is",
        50 << 30,
        40 << 30,
        0.05,
        &[
            allocate(0, 42_781_900_800, 0, 0),
            allocate(1, 6_207_569_920, 0, 0),
            allocate(2, 512, 0, 0),
        ],
    );
    ends();
}

/// What ends while work goes on.
fn ends() {
    let check = |what: &str, ops: &[Op]| check(what, 32 * MIB, 0.0, ops);
    check(
        "a graph runs on another stream than its pool's",
        &[
            allocate(0, 20 * MIB, 0, 1),
            allocate(1, 512, 1, 0),
            Op::Replay(Named(0), 1),
            Op::Free(Named(0)),
            Op::EndPool(1),
            allocate(2, 20 * MIB, 2, 0),
        ],
    );
    check(
        "the stream that a graph runs on ends before its pool",
        &[
            allocate(0, 20 * MIB, 0, 1),
            allocate(1, 512, 1, 0),
            Op::Replay(Named(0), 1),
            Op::Free(Named(0)),
            Op::EndStream(1),
            Op::EndPool(1),
            allocate(2, 20 * MIB, 2, 0),
        ],
    );
    check(
        "a block is used after its pool's end",
        &[
            allocate(0, 20 * MIB, 0, 1),
            Op::EndPool(1),
            Op::Launch(Named(0)),
            Op::Free(Named(0)),
            allocate(1, 20 * MIB, 1, 0),
        ],
    );
    check(
        "a graph outlives the stream of its capture",
        &[
            allocate(0, 20 * MIB, 0, 1),
            Op::Free(Named(0)),
            Op::EndStream(0),
            allocate(1, 20 * MIB, 1, 0),
        ],
    );
    check(
        "a stream that uses a block ends, and one that captured when the block was freed",
        &[
            allocate(0, 20 * MIB, 0, 0),
            allocate(1, 2 * MIB, 0, 0),
            Op::Use(Named(0), 1),
            Op::Use(Named(1), 2),
            Op::EndStream(1),
            Op::Free(Named(0)),
            Op::Capture { stream: 2, begin: true },
            Op::Free(Named(1)),
            Op::Capture { stream: 2, begin: false },
            Op::EndStream(2),
            allocate(2, 24 * MIB, 3, 0),
        ],
    );
    check(
        "a block of an ended stream is used by a new one of the same name",
        &[
            allocate(0, 20 * MIB, 0, 0),
            Op::EndStream(0),
            Op::Use(Named(0), 0),
            Op::Free(Named(0)),
            allocate(1, 20 * MIB, 1, 0),
        ],
    );
}
