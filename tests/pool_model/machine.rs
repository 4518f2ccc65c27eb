//! A program that uses the pool, operation by operation; after each one everything that is promised is checked.

use std::cell::RefCell;
use std::rc::Rc;

use cenote::pool::{Config, Pool, PoolBook, SegmentView};

use super::checks;
use super::driver::{Card, Handle};
use super::faults::{CODES, Call};
use super::intruder::{self, Moment};
use super::memory::MIB;
use super::operation::Operation;
use super::world::World;

/// Blocks that the program holds at most.
pub(crate) const MOST_LIVE: usize = 96;

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
    pub(crate) fn act(&self, operation: &Operation, within: bool) {
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
                pool.give_back_doomed();
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

    pub(crate) fn segments(&self) -> Vec<SegmentView> {
        self.pool.segments().expect("nobody else is in the pool")
    }

    /// Whether another thread acted in this operation, or faults are to come.
    pub(crate) fn is_disturbed(&self) -> bool {
        intruder::acted() || self.pool.driver().card().faults.are_ordered()
    }
}
