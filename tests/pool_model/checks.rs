//! What must hold after every operation, and the account that a refusal must give of itself.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use cenote::cuda::{CuResult, Failure};
use cenote::pool::{PoolBook, SegmentView, SlotState, WrongFree};

use super::intruder;
use super::machine::Machine;
use super::memory::MIB;

/// Books of the pool, of the driver and of the model are one.
pub(crate) fn everything(machine: &Machine) {
    let (segments, book) = (machine.segments(), machine.book);
    let world = &mut *machine.world.borrow_mut();
    let card = machine.pool.driver().card();
    // What was to be given back during a capture is out of the books, and the driver still has it.
    let booked: BTreeSet<u64> = segments.iter().map(|view| view.address).collect();
    let owed = card.memory.all().filter(|held| !booked.contains(&held.address));
    world.owed = owed.copied().collect();
    assert!(card.captures > 0 || world.owed.is_empty(), "{:x?} is nobody's", world.owed);
    let owed: u64 = world.owed.iter().map(|held| held.bytes).sum();
    let reserved = book.reserved.get();
    assert_eq!(reserved + owed, card.memory.bytes(), "reserved, and what the driver gave");
    for view in &segments {
        let held = card.memory.at(view.address).map(|held| held.bytes);
        assert_eq!(held, Some(view.bytes), "{view:x?} is the driver's");
    }
    recount(book, &segments);
    assert_eq!(book.live.get(), world.live_bytes(), "live bytes");
    assert_eq!(book.live_blocks.load(Relaxed), world.live.len() as u64, "live blocks");
    for (&address, live) in &world.live {
        let serial = card.memory.around(address).map(|held| held.serial);
        assert_eq!(serial, Some(live.serial), "memory of {address:#x} went back");
    }
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
    assert_eq!((count(&book.allocations), count(&book.frees)), (world.allocations, world.frees));
    let calls = (count(&book.driver_allocations), count(&book.driver_frees));
    assert_eq!(calls, card.totals, "calls of the driver");
    // A slot freed when nothing is recycled any more is withheld already, and an export counts it not.
    let exports = count(&book.exported_blocks);
    assert!(exports == world.exported.len() as u64 || world.unpooled, "{exports} exports");
    assert!(count(&book.hits) <= world.allocations, "hits");
    let unused = segments.iter().filter(|view| slots(view, SlotState::Live) == 0);
    let reclaimable: u64 = unused.map(|view| view.bytes).sum();
    assert_eq!(machine.pool.reclaimable_bytes(), reclaimable, "reclaimable bytes");
    let ready = ready(segments.iter()).max().unwrap_or(0);
    assert_eq!(machine.pool.largest_ready_bytes(), ready, "largest ready slot");
    assert_eq!(machine.pool.is_capturing(), card.captures > 0, "captures");
    if card.log.frees > 0 {
        world.prune(&card.memory);
    }
    let excuse = card.faults.are_ordered() || card.captures > 0 || card.events() >= 256;
    let strict = &mut *machine.strict.borrow_mut();
    *strict = !excuse
        && !intruder::acted()
        && card.log.faults == 0
        && (*strict || book.waiting.get() == 0);
}

/// The gauges are the sums over the segments, and `reserved = live + cached + waiting + internal`.
pub(crate) fn recount(book: &PoolBook, segments: &[SegmentView]) {
    let sum = |part: fn(&SegmentView) -> u64| segments.iter().map(part).sum::<u64>();
    let parts = [&book.live, &book.cached, &book.waiting, &book.internal];
    let total: u64 = parts.iter().map(|part| part.get()).sum();
    assert_eq!(book.reserved.get(), total, "reserved is the sum of its parts");
    assert_eq!(book.reserved.get(), sum(|view| view.bytes), "reserved");
    assert_eq!(book.live.get(), sum(|view| view.live_bytes), "live");
    assert_eq!(book.live_blocks.load(Relaxed), sum(|view| slots(view, SlotState::Live)));
    let in_state = |view: &SegmentView, state| slots(view, state) * slot_bytes(view);
    let waiting: u64 = segments.iter().map(|view| in_state(view, SlotState::Waiting)).sum();
    assert_eq!((book.waiting.get(), waiting), (waiting, sum(|view| view.waiting_bytes)));
    let cached: u64 = segments.iter().map(|view| in_state(view, SlotState::Ready)).sum();
    assert_eq!(book.cached.get(), cached, "cached");
    for gauge in parts.into_iter().chain([&book.reserved]) {
        assert!(gauge.get() <= gauge.peak(), "{gauge:?} is above its peak");
        assert!(gauge.peak() < 1 << 50, "{gauge:?} wrapped");
    }
}

fn slot_bytes(view: &SegmentView) -> u64 {
    view.slot_bytes.unwrap_or(view.bytes)
}

fn slots(view: &SegmentView, state: SlotState) -> u64 {
    let runs = view.runs.iter().filter(|(s, _)| *s == state);
    runs.map(|&(_, length)| u64::from(length)).sum()
}

/// Sizes of segments' ready slots.
fn ready<'a>(segments: impl Iterator<Item = &'a SegmentView>) -> impl Iterator<Item = u64> {
    segments.filter(|view| slots(view, SlotState::Ready) > 0).map(slot_bytes)
}

/// Segments in which nothing is live, or waits.
pub(crate) fn idle(segments: &[SegmentView]) -> impl Iterator<Item = &SegmentView> {
    let in_use =
        |view: &SegmentView| slots(view, SlotState::Live) + slots(view, SlotState::Waiting);
    segments.iter().filter(move |view| in_use(view) == 0)
}

/// Everything that may be seen of the pool.
pub(crate) fn fingerprint(machine: &Machine) -> String {
    format!("{:?} {:?}", machine.segments(), machine.book)
}

/// A block is the program's alone, and no work in flight touches it.
pub(crate) fn handed_out(machine: &Machine, address: u64, bytes: u64, tag: u64) {
    let card = machine.pool.driver().card();
    machine.world.borrow_mut().hand_out(address, bytes, tag, &card.memory);
    let busy = card.is_busy(&(address..address + bytes));
    assert!(!busy, "work in flight on {address:#x}, which was handed out");
    drop(card);
    let located = machine.pool.locate(address);
    let fits = located.is_some_and(|l| l.block == address && l.block_bytes >= bytes);
    assert!(fits, "{address:#x} of {bytes} bytes: {located:x?}");
}

/// An allocation was refused: that must be true.
pub(crate) fn refusal(machine: &Machine, bytes: u64, failure: Failure, within: bool) {
    let log = machine.pool.driver().card().log.clone();
    if let Failure::Other(code) = failure {
        let said = log.refusals.contains(&code);
        return assert!(said && code != CuResult::OUT_OF_MEMORY, "{code:?} is not the driver's");
    }
    assert!(log.out_of_memory, "{bytes} bytes refused, and not by the driver");
    if within || intruder::acted() {
        return;
    }
    let segments = machine.segments();
    let cuts = machine.config.slabs && !machine.world.borrow().slabs_stopped;
    let usable = segments.iter().filter(|view| cuts || view.slot_bytes.is_none());
    let slot = ready(usable).filter(|&slot| slot >= bytes).min();
    assert_eq!(slot, None, "{bytes} bytes refused, and a slot is ready");
    let card = machine.pool.driver().card();
    if log.faults > 0 || log.gave_up || card.captures > 0 {
        return;
    }
    let pinned = segments.iter().filter(|view| slots(view, SlotState::Live) > 0);
    let pinned: BTreeSet<u64> = pinned.map(|view| view.address).collect();
    let keeps = |address: u64| pinned.contains(&address);
    let fits = card.memory.fits(bytes, card.capacity, |held| keeps(held.address));
    assert!(!fits, "{bytes} bytes refused, and giving back what nobody uses makes room");
}

/// No memory of the driver was taken while a block of the very size waited, and with it more than the bound (256 MiB at least).
pub(crate) fn growth(machine: &Machine, bytes: u64, bound: u64) {
    let log = machine.pool.driver().card().log.clone();
    let excused = log.allocations == 0 || log.faults > 0 || log.gave_up;
    let waiting = machine.book.waiting.get();
    if excused || !*machine.strict.borrow() || waiting < bound.max(256 * MIB) || bytes < MIB {
        return;
    }
    let size = if bytes == MIB { MIB } else { bytes.next_multiple_of(2 * MIB) };
    let segments = machine.segments();
    let mut waiting = segments.iter().filter(|view| view.slot_bytes.is_none());
    let same = waiting.any(|view| view.bytes == size && view.waiting_bytes == size);
    assert!(!same, "{bytes} bytes from the driver, while too many wait");
}

/// After a release of everything, what is left has a live block in it.
pub(crate) fn nothing_cached(machine: &Machine) {
    let card = machine.pool.driver().card();
    if card.captures > 0 || card.log.faults > 0 || card.log.gave_up || intruder::acted() {
        return;
    }
    drop(card);
    for view in machine.segments() {
        assert!(slots(&view, SlotState::Live) > 0, "{view:x?} is left");
        assert!(slots(&view, SlotState::Waiting) == 0, "{view:x?} waits");
    }
}

/// A dead pool says what was lost, has nothing, and calls nobody.
pub(crate) fn death(machine: &Machine) {
    let (pool, world) = (&machine.pool, machine.world.borrow());
    let captures = std::mem::take(&mut pool.driver().card().captures);
    let held = pool.driver().card().memory.bytes();
    pool.driver().card().dead = true;
    let (lost, reserved) = pool.bury();
    let live: Vec<_> = world.live.iter().map(|(&start, live)| (start, live.requested)).collect();
    assert_eq!((lost, reserved), (live, held), "what was lost");
    let book = machine.book;
    for gauge in [&book.reserved, &book.live, &book.cached, &book.waiting, &book.internal] {
        assert_eq!(gauge.get(), 0, "{gauge:?} of a dead pool");
    }
    assert!(machine.segments().is_empty() && !pool.has_idle(0, 0));
    for &address in world.live.keys() {
        assert_eq!(pool.free(address, 1), Err(WrongFree::Unknown));
        assert!(pool.locate(address).is_none() && pool.export(address).is_none());
    }
    (0..captures).for_each(|_| pool.capture(false));
    pool.settle();
    assert!(!pool.is_device_idle() && pool.release_idle(0, 0) == 0 && !pool.release_all());
}

/// The program frees everything; then everything goes back, events too.
pub(crate) fn end(machine: &Machine) {
    let (pool, world) = (&machine.pool, &machine.world);
    intruder::cancel();
    pool.driver().card().faults = Default::default();
    while pool.is_capturing() {
        pool.driver().card().captures -= 1;
        pool.capture(false);
        pool.give_back_doomed();
    }
    let live: Vec<u64> = world.borrow().live.keys().copied().collect();
    for address in live {
        let tag = world.borrow_mut().next_tag();
        world.borrow_mut().give_up(address, tag);
        world.borrow_mut().frees += 1;
        assert_eq!(pool.free(address, tag), Ok(()));
    }
    {
        let card = &mut *pool.driver().card();
        card.log = Default::default();
        // Longer work than anybody waits for is done; the rest is left to the release.
        card.advance_to(card.all_done_at().saturating_sub(10_000_000));
    }
    pool.release_all();
    everything(machine);
    let card = pool.driver().card();
    assert_eq!((machine.book.reserved.get(), card.memory.bytes()), (0, 0), "bytes are kept");
    assert_eq!(card.events(), 0, "events are kept");
}
