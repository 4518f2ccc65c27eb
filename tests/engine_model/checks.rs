//! What is promised, and what a refusal must be able to say for itself.

use std::collections::{BTreeMap, BTreeSet};

use cenote::cuda::Handle;
use cenote::pool::engine::{Count, Stats};

use super::faults::Call;
use super::memory::{Extent, PAGE};
use super::time::User;
use super::world::{Live, World};

fn same<T: PartialEq + std::fmt::Debug>(what: &str, engine: T, model: T) -> Result<(), String> {
    if engine == model { Ok(()) } else { Err(format!("{what}: {engine:?}, and it is {model:?}")) }
}

/// A new block: aligned, with memory, beside the others, and no work of other streams is left on its memory; in a private pool none at
/// all but its own, since a graph may run on any stream.
pub(crate) fn handed_out(
    world: &World,
    address: u64,
    bytes: u64,
    stream: usize,
    pool: u64,
) -> Result<Vec<Extent>, String> {
    let end = address + bytes;
    if !address.is_multiple_of(512) {
        return Err(format!("{address:#x} is not aligned"));
    }
    if let Some((start, other)) = world.live.range(..end).next_back()
        && start + other.bytes > address
    {
        return Err(format!("{address:#x} to {end:#x} lies over the block at {start:#x}"));
    }
    let is_over = |start: u64, other: &Live| start < end && address < start + other.bytes;
    let mut captured = world.captured.iter();
    if let Some((start, _)) = captured.find(|(at, of)| of.pool != pool && is_over(*at, of)) {
        return Err(format!("{address:#x} to {end:#x} lies over {start:#x}, which a graph knows"));
    }
    let state = world.engine.card().state();
    let Some(extents) = state.memory.extents(address, end) else {
        return Err(format!("{address:#x} to {end:#x} has no memory everywhere"));
    };
    let clash = if pool == 0 {
        let user = User { owner: 0, pool: 0, is_graph: false };
        state.time.conflict(&extents, [stream, stream], user)
    } else {
        state.time.foreign(&extents, stream, pool)
    };
    match clash {
        None => Ok(extents),
        Some(clash) => Err(format!("{address:#x} for stream {stream}, and work runs on {clash}")),
    }
}

/// After each step: the numbers.
pub(crate) fn cheap(world: &mut World) -> Result<(), String> {
    let stats = world.stats();
    let counts = [stats.allocated_bytes, stats.requested_bytes, stats.allocation];
    for (what, (count, model)) in
        ["allocated bytes", "requested bytes", "blocks"].iter().zip(counts.iter().zip(world.counts))
    {
        // The sum over lanes is exact, its peak only while threads take turns.
        let peak = if world.one_lane { model.peak } else { count.peak.max(model.current) };
        same(what, *count, Count { peak, ..model })?;
    }
    let held = world.engine.card().state().memory.held;
    let model =
        Count { current: held.now, peak: held.peak, allocated: held.created, freed: held.released };
    same("reserved bytes", stats.reserved_bytes, model)?;
    same("handles created", stats.pages_created, held.handles)?;
    if held.now > world.ceiling {
        return Err(format!("{} bytes held, and {} are allowed", held.now, world.ceiling));
    }
    world.ceiling = world.ceiling.min(world.engine.limit().max(held.now));
    Ok(())
}

/// Now and then: every live block still has the memory that it was given, and nobody else has it; so has what graphs remember.
pub(crate) fn full(world: &World) -> Result<(), String> {
    let state = world.engine.card().state();
    let mut owned: BTreeMap<(Handle, u64), (u64, u64)> = BTreeMap::new();
    for (&address, live) in &world.live {
        let extents = state.memory.extents(address, address + live.bytes);
        if extents.as_ref() != Some(&live.extents) {
            return Err(format!("{address:#x} had {:?}, and now {extents:?}", live.extents));
        }
        for &(handle, begin, end) in &live.extents {
            owned.insert((handle, begin), (end, address));
        }
    }
    for (address, block) in &world.captured {
        let extents = state.memory.extents(*address, address + block.bytes);
        if extents.as_ref() != Some(&block.extents) {
            return Err(format!(
                "a graph knows {address:#x} with {:?}, now {extents:?}",
                block.extents
            ));
        }
    }
    let pairs = owned.iter().zip(owned.iter().skip(1));
    for (((handle, _), (end, first)), ((next, begin), (_, second))) in pairs {
        if handle == next && end > begin {
            return Err(format!("{first:#x} and {second:#x} share bytes of handle {handle}"));
        }
    }
    Ok(())
}

/// Handles that lie in private pools.
fn private(world: &World) -> BTreeSet<Handle> {
    let memory = &world.engine.card().state().memory;
    let spans = memory.spans.iter().zip(&world.pools).filter(|(_, pool)| **pool != 0);
    spans.flat_map(|(&(base, bytes), _)| memory.mapped_in(base, bytes)).collect()
}

/// A refusal is right if all that is free, and what may still be taken, is too little for the request. What is freed counts as
/// free whatever works on it, since a refusal comes after a wait; but nobody can wait for a stream that captures.
pub(crate) fn refusal(world: &World, bytes: u64) -> Result<(), String> {
    let private = private(world);
    let state = world.engine.card().state();
    let is_lost = state.faults.fired == Some(Call::Record);
    if state.time.any_captures() || bytes > world.setup.total || world.is_vague || is_lost {
        return Ok(());
    }
    let live = world.live.values().flat_map(|live| &live.extents);
    let touched: BTreeSet<_> = live.map(|&(handle, ..)| handle).collect();
    let all = state.memory.unreleased();
    let free = all.filter(|(handle, _)| !touched.contains(handle) && !private.contains(handle));
    let free: u64 = free.map(|(_, bytes)| bytes).sum();
    let held = state.memory.held.now;
    // What was released, and is mapped still, goes back in the wait as well.
    let most = world.engine.limit().min(state.memory.capacity);
    let room = i128::from(most) - i128::from(held) + i128::from(free);
    let need = i128::from(bytes.next_multiple_of(PAGE) + 2 * PAGE);
    if room < need {
        return Ok(());
    }
    Err(format!("{bytes} bytes refused: {free} are free, {held} held, {most} allowed"))
}

/// The program ends: everything is freed and done, and goes back.
pub(crate) fn end(world: &mut World) -> Result<(), String> {
    world.free_all()?;
    world.open.clone().into_keys().for_each(|pool| world.end_pool(pool));
    {
        let state = &mut *world.engine.card().state();
        state.time.end_captures();
        state.time.finish_all();
    }
    let before = world.engine.card().state().faults.fired;
    world.engine.trim();
    if world.engine.card().state().faults.fired != before {
        // What a failed query or record kept from going is not lost: the next one takes it.
        world.engine.trim();
    }
    if let Some(violation) = world.engine.card().state().memory.violation.take() {
        return Err(violation);
    }
    cheap(world)?;
    let state = world.engine.card().state();
    let left: u64 = state.memory.unreleased().map(|(_, bytes)| bytes).sum();
    let events = state.time.events.len();
    let unmapped = state.memory.used - state.memory.held.now;
    let lost = state.faults.fired;
    // What the driver refused to take back is lost, and what a stream used of whose end it did not tell, and nothing else.
    if !matches!(lost, Some(Call::Release | Call::Record)) {
        same("bytes left by a trim", left, 0)?;
    }
    if !matches!(lost, Some(Call::Unmap | Call::Record)) {
        same("bytes released and still mapped", unmapped, 0)?;
    }
    same("events left", events, 0)
}

/// What was asked for lives, and what lives is held: so it is with their peaks, however threads count.
pub(crate) fn peaks(stats: &Stats) {
    let peaks = [stats.requested_bytes, stats.allocated_bytes, stats.reserved_bytes];
    assert!(peaks.is_sorted_by_key(|count| count.peak), "more lived than was held: {stats:?}");
}
