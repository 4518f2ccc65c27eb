//! A program that uses the pool, operation by operation; after each one everything that is promised is checked.

use std::cell::RefCell;
use std::rc::Rc;

use cenote::cuda::Failure;
use cenote::pool::{Config, Pool, PoolBook, SegmentView, SlotState, WrongFree};

use super::checks;
use super::driver::{Card, Handle};
use super::faults::{CODES, Call};
use super::intruder::{self, Moment};
use super::memory::MIB;
use super::operation::Operation;
use super::world::World;

/// Blocks that the program holds at most.
const MOST_LIVE: usize = 96;

pub(crate) struct Machine {
    pub(crate) pool: Pool<Handle>,
    pub(crate) book: &'static PoolBook,
    pub(crate) world: RefCell<World>,
    pub(crate) config: Config,
    /// Answers so far: the same operations must give the same.
    pub(crate) trace: RefCell<Vec<u64>>,
    /// No fault, capture or burst of events so far that would excuse memory from the driver.
    pub(crate) strict: RefCell<bool>,
}

/// Configurations, and whether the driver has context events.
pub(crate) fn config(n: usize) -> (Config, bool) {
    let plain = Config {
        max_split_size: None,
        max_non_split_rounding: 20 * MIB,
        collect_above: None,
        slabs: true,
        free_barrier: false,
    };
    let config = match n {
        1 => Config { slabs: false, ..plain },
        2 => Config { free_barrier: true, ..plain },
        4 => Config { collect_above: Some(150 * MIB), ..plain },
        5 => Config { max_split_size: Some(8 * MIB), ..plain },
        _ => plain,
    };
    (config, n != 3)
}

impl Machine {
    pub(crate) fn new(n: usize, capacity: u64) -> Rc<Machine> {
        let (config, events) = config(n);
        let book: &'static PoolBook = Box::leak(Box::default());
        let pool = Pool::new(Handle::new(Card::new(capacity, events)), config, book);
        let (world, trace, strict) = (RefCell::default(), RefCell::default(), RefCell::new(true));
        Rc::new(Machine { pool, book, world, config, trace, strict })
    }

    /// Does one operation and checks everything. A death gives the machine that goes on.
    pub(crate) fn step(self: Rc<Self>, operation: &Operation) -> Rc<Machine> {
        if let Operation::Intrude { moment, others } = operation {
            let (machine, others) = (Rc::clone(&self), others.clone());
            intruder::plan(*moment, move |at| {
                let others = others.iter().filter(|other| machine.may_intrude(other, at));
                others.for_each(|other| machine.act(other, true));
            });
            return self;
        }
        if let Operation::Bury(n) = operation {
            intruder::cancel();
            let capacity = self.pool.driver().card().capacity;
            checks::death(&self);
            let next = Machine::new(*n, capacity);
            next.trace.swap(&self.trace);
            return next;
        }
        self.pool.driver().card().log = Default::default();
        self.act(operation, false);
        checks::everything(&self);
        intruder::cancel();
        self
    }

    /// Does one operation. `within` another one the books may be on their way.
    fn act(&self, operation: &Operation, within: bool) {
        let pool = &self.pool;
        let capturing = pool.driver().card().captures > 0;
        match *operation {
            Operation::Allocate(bytes) => self.allocate(bytes, within),
            Operation::Launch { stream, block, micros } => {
                let target = self.world.borrow().nth_live(block);
                if let Some((address, live)) = target {
                    let range = address..address + live.requested;
                    pool.driver().card().launch(stream, range, micros);
                }
            }
            Operation::Free(n) => {
                let target = self.world.borrow().nth_live(n);
                target.into_iter().for_each(|(address, _)| self.free(address, within));
            }
            Operation::FreeTwice(n) => {
                let target = self.world.borrow().nth_freed(n);
                target.into_iter().for_each(|address| self.wrong_free(address));
            }
            Operation::FreeInside { block, offset } => {
                let target = self.world.borrow().nth_live(block);
                if let Some((address, live)) = target {
                    self.wrong_free(address + offset % live.requested);
                }
            }
            Operation::FreeForeign(address) => self.wrong_free(address),
            Operation::BeginCapture => {
                pool.capture(true);
                pool.driver().card().captures += 1;
            }
            Operation::EndCapture if capturing => {
                pool.driver().card().captures -= 1;
                pool.capture(false);
            }
            Operation::EndCapture => {}
            Operation::Settle => pool.settle(),
            Operation::ReleaseIdle { idle_ms, retain } => self.release(idle_ms, retain, within),
            Operation::ReleaseAll => {
                pool.release_all();
                if !within {
                    checks::nothing_cached(self);
                }
            }
            Operation::AskIdle => self.ask_idle(within),
            Operation::Export(n) => self.export(n),
            Operation::Advance(micros) => {
                let mut card = pool.driver().card();
                let time = card.now + micros;
                card.advance_to(time);
            }
            Operation::Drain => {
                let mut card = pool.driver().card();
                let done = card.all_done_at();
                card.advance_to(done);
            }
            Operation::Capacity(bytes) => pool.driver().card().capacity = bytes,
            Operation::Fault { call, n, code } => {
                let mut card = pool.driver().card();
                card.faults.order(Call::ALL[call], n, CODES[code]);
            }
            Operation::Break => pool.driver().card().faults.sticky = Some(CODES[1]),
            Operation::StopSlabs => {
                pool.stop_slabs();
                self.world.borrow_mut().slabs_stopped = true;
            }
            Operation::StopRecycling => {
                pool.stop_recycling();
                let world = &mut *self.world.borrow_mut();
                (world.unpooled, world.slabs_stopped) = (true, true);
            }
            Operation::ReleaseWhileIdle { idle_ms, retain } => {
                self.release_while_idle(idle_ms, retain, within);
            }
            Operation::Bury(_) | Operation::Intrude { .. } => {}
        }
    }

    /// Whether another thread may do this at such a moment of a call.
    fn may_intrude(&self, other: &Operation, at: Moment) -> bool {
        use Operation::{Allocate, BeginCapture, Free, ReleaseAll};
        let barrier = self.config.free_barrier || !self.pool.driver().card().context_events;
        match (at, other) {
            (Moment::Any, _) => true,
            (_, BeginCapture) | (Moment::Synchronising, Allocate(_) | ReleaseAll) => false,
            (Moment::Synchronising, Free(_)) => !barrier,
            _ => true,
        }
    }

    fn allocate(&self, bytes: u64, within: bool) {
        if self.world.borrow().live.len() >= MOST_LIVE {
            return self.act(&Operation::Free(bytes as usize), within);
        }
        let bound = 2 * self.book.live.peak();
        let tag = self.world.borrow_mut().next_tag();
        self.world.borrow_mut().allocations += 1;
        let answer = self.pool.allocate(bytes, tag);
        self.trace.borrow_mut().push(answer.map_or_else(code, |address| address));
        match answer {
            Ok(address) => checks::handed_out(self, address, bytes, tag),
            Err(failure) => checks::refusal(self, bytes, failure, within),
        }
        if !within && !intruder::acted() {
            checks::growth(self, bytes, bound);
        }
    }

    fn free(&self, address: u64, within: bool) {
        let tag = self.world.borrow_mut().next_tag();
        let located = self.pool.locate(address);
        // Before the call: as soon as the pool has it, another thread may be given it.
        let live = self.world.borrow_mut().give_up(address, tag);
        let (Some(live), Some(located)) = (live, located) else {
            panic!("{address:#x} is live and not to be found: {located:x?}");
        };
        let whole = located.block_bytes == located.segment_bytes;
        assert_eq!(self.pool.free(address, tag), Ok(()), "free of the live {address:#x}");
        self.world.borrow_mut().frees += 1;
        let log = self.pool.driver().card().log.clone();
        let barrier = self.config.free_barrier || !self.pool.driver().card().context_events;
        let waits = within || barrier || self.world.borrow().unpooled || (live.exported && whole);
        assert!(waits || log.waits == 0, "a free waits");
    }

    fn wrong_free(&self, address: u64) {
        if self.world.borrow().live.contains_key(&address) {
            return;
        }
        let before = checks::fingerprint(self);
        let expected = self.pool.check_free(address);
        let answer = self.pool.free(address, u64::MAX).err();
        let answer = answer.unwrap_or_else(|| panic!("free of {address:#x} is taken"));
        if intruder::acted() {
            return;
        }
        let known = Some(answer).filter(|&answer| answer != WrongFree::Unknown);
        assert_eq!(expected, known, "free of {address:#x} and its announcement");
        assert_eq!(before, checks::fingerprint(self), "a refused free changes something");
        self.world.borrow().judge(address, answer, &self.pool.driver().card().memory);
    }

    fn release(&self, idle_ms: u64, retain: u64, within: bool) {
        let had = self.pool.has_idle(idle_ms, retain);
        let capturing = self.pool.is_capturing();
        let released = self.pool.release_idle(idle_ms, retain);
        if capturing {
            assert_eq!(released, 0, "memory given back during a capture");
        } else if !within && !self.is_disturbed() {
            assert_eq!(released > 0, had, "idle memory announced and given back");
            let cached: u64 = checks::idle(&self.segments()).map(|view| view.bytes).sum();
            assert!(idle_ms > 0 || cached <= retain, "{cached} bytes are idle, not {retain}");
        }
        self.trace.borrow_mut().push(released as u64);
    }

    fn release_while_idle(&self, idle_ms: u64, retain: u64, within: bool) {
        let (before, idle) = {
            let card = self.pool.driver().card();
            (card.now, card.is_idle() && card.captures == 0 && card.context_events)
        };
        let released = self.pool.release_while_idle(idle_ms, retain);
        self.trace.borrow_mut().push(released as u64);
        if within || self.is_disturbed() {
            return;
        }
        assert_eq!(self.pool.driver().card().now, before, "waited for work in flight");
        let cached: u64 = checks::idle(&self.segments()).map(|view| view.bytes).sum();
        assert!(idle || released == 0, "given back while the device works");
        let log = self.pool.driver().card().log.clone();
        let done = !idle || log.faults > 0 || idle_ms > 0;
        assert!(done || cached <= retain, "{cached} bytes are idle, not {retain}");
    }

    fn ask_idle(&self, within: bool) {
        let answer = self.pool.is_device_idle();
        let disturbed = self.is_disturbed();
        let card = self.pool.driver().card();
        if answer {
            assert!(card.captures == 0 && (within || card.is_idle()), "idle, says the pool");
        } else if !within && !disturbed {
            let idle = card.is_idle() && card.captures == 0 && card.context_events;
            assert!(!idle || card.log.faults > 0, "busy, says the pool");
        }
        let (faults, events) = (card.log.faults, card.events());
        drop(card);
        if answer && !within && faults == 0 {
            assert_eq!(self.book.waiting.get(), 0, "idle, and memory waits");
            assert_eq!(events, 0, "idle, and events are kept");
        }
    }

    /// The start of a segment stands for all of its slots.
    fn export(&self, n: usize) {
        let Some((address, live)) = self.world.borrow().nth_live(n) else { return };
        let located = self.pool.export(address);
        let located = located.unwrap_or_else(|| panic!("{address:#x} is not to be found"));
        assert_eq!((located.block, located.state), (address, SlotState::Live));
        let slots = match address == located.segment {
            true => checks::slots_of(&self.segments(), address),
            false => 1,
        };
        let starts = (0..slots).map(|slot| (live.serial, address + slot * located.block_bytes));
        let end = address + slots * located.block_bytes;
        let mut world = self.world.borrow_mut();
        world.exported.extend(starts);
        world.live.range_mut(address..end).for_each(|(_, live)| live.exported = true);
        if slots > 1 {
            world.shut.insert(live.serial);
        }
    }

    pub(crate) fn segments(&self) -> Vec<SegmentView> {
        self.pool.segments().expect("nobody else is in the pool")
    }

    /// Whether another thread acted in this operation, or faults are to come.
    pub(crate) fn is_disturbed(&self) -> bool {
        intruder::acted() || self.pool.driver().card().faults.are_ordered()
    }
}

fn code(failure: Failure) -> u64 {
    match failure {
        Failure::OutOfMemory => 2,
        Failure::Other(code) => u64::from(code.0) << 8,
    }
}
