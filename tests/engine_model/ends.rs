//! Streams and pools that come and go.

use cenote::pool::engine::{Engine, EngineSettings};

use super::card::ModelCard;
use super::checks;
use super::memory::MIB;
use super::time::Work;

/// One stream after another, or one pool: each has a small and a large block, with work that is done much later.
pub(crate) fn one_after_another(rounds: u64, has_pool: bool) {
    let total = 1024 * MIB;
    let settings = EngineSettings { total, limit: None, slack: 0.05 };
    let engine = Engine::new(ModelCard::new(total, 1), settings);
    let mut lane = engine.lane();
    for round in 1..=rounds {
        let stream = engine.card().state().time.begin(0);
        let pool = if has_pool { round } else { 0 };
        for bytes in [1024, 3 * MIB] {
            let block = engine.allocate(&mut lane, bytes, 0, pool);
            let begin = block.unwrap_or_else(|why| panic!("round {round}, {bytes}: {why:?}"));
            let extents = engine.card().state().memory.extents(begin, begin + bytes);
            let extents = extents.expect("memory everywhere");
            let behind = None;
            let end = begin + bytes;
            let work = Work { begin, end, extents, owner: round, pool, is_graph: false, behind };
            engine.card().launch(stream, stream, work).expect("nobody else's work");
            assert_eq!(engine.free(&mut lane, begin), Ok(bytes));
        }
        if has_pool {
            engine.forget_pool(pool);
        } else {
            engine.forget_stream(0);
            engine.card().state().time.end(0);
        }
        if round % 40 == 0 {
            engine.card().state().time.finish_all();
        }
    }
    engine.trim();
    let stats = engine.stats();
    let state = engine.card().state();
    assert_eq!(state.memory.violation, None);
    assert_eq!((stats.ooms, stats.reserved_bytes.current, state.memory.used), (0, 0, 0));
    assert_eq!(state.time.events.len(), 0, "events are kept");
}

/// A peak that two threads make together, after they took turns.
pub(crate) fn peak_of_two_threads() {
    let settings = EngineSettings { total: 1024 * MIB, limit: None, slack: 0.05 };
    let engine = Engine::new(ModelCard::new(1024 * MIB, 1), settings);
    let (mut one, mut two) = (engine.lane(), engine.lane());
    assert!(engine.allocate(&mut one, 512, 0, 0).is_ok());
    assert!(engine.allocate(&mut two, 512, 0, 0).is_ok());
    assert!(engine.allocate(&mut one, 512, 0, 0).is_ok());
    assert!(engine.allocate(&mut one, 512, 0, 0).is_ok());
    let large = engine.allocate(&mut two, 100 * MIB, 0, 0).expect("memory");
    for _ in 0..1000 {
        let block = engine.allocate(&mut one, 50 * MIB, 0, 0).expect("memory");
        assert_eq!(engine.free(&mut one, block), Ok(50 * MIB));
    }
    assert_eq!(engine.free(&mut two, large), Ok(100 * MIB));
    assert_eq!(engine.stats().allocated_bytes.peak, 150 * MIB + 4 * 512);
}

/// A thread that has stopped looking at what others hold counts what they have freed since.
pub(crate) fn peak_beside_a_busy_thread() {
    let settings = EngineSettings { total: 1024 * MIB, limit: None, slack: 0.05 };
    let engine = Engine::new(ModelCard::new(1024 * MIB, 1), settings);
    let mut lanes = [engine.lane(), engine.lane()];
    let large = engine.allocate(&mut lanes[1], 100 * MIB, 0, 0).expect("memory");
    for turn in 0..200 {
        let lane = &mut lanes[turn % 2];
        let block = engine.allocate(lane, 512, 0, 0).expect("memory");
        assert_eq!(engine.free(lane, block), Ok(512));
    }
    assert_eq!(engine.free(&mut lanes[1], large), Ok(100 * MIB));
    engine.trim();
    engine.allocate(&mut lanes[0], 90 * MIB, 0, 0).expect("memory");
    checks::peaks(&engine.stats());
}
