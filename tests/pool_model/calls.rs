//! Calls of the pool, one by one, and what each alone promises.

use cenote::cuda::Failure;
use cenote::pool::{SlotState, WrongFree};

use super::machine::{MOST_LIVE, Machine};
use super::operation::Operation;
use super::{checks, intruder};

impl Machine {
    pub(crate) fn allocate(&self, bytes: u64, within: bool) {
        if self.world.borrow().live.len() >= MOST_LIVE {
            return self.act(&Operation::Free(bytes as usize), within);
        }
        let bound = self.book.live.peak();
        let tag = self.world.borrow_mut().next_tag();
        let answer = self.pool.allocate(bytes, tag);
        self.world.borrow_mut().allocations += u64::from(answer.is_ok());
        self.trace.borrow_mut().push(answer.unwrap_or_else(code));
        match answer {
            Ok(address) => checks::handed_out(self, address, bytes, tag),
            Err(failure) => checks::refusal(self, bytes, failure, within),
        }
        if !within && !intruder::acted() {
            checks::growth(self, bytes, bound);
        }
    }

    pub(crate) fn free(&self, address: u64, within: bool) {
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
        let captures = self.pool.is_capturing();
        let waits = within
            || barrier
            || captures
            || self.world.borrow().unpooled
            || (live.exported && whole);
        assert!(waits || log.waits == 0, "a free waits");
    }

    pub(crate) fn wrong_free(&self, address: u64) {
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

    pub(crate) fn release(&self, idle_ms: u64, retain: u64, within: bool) {
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

    pub(crate) fn release_while_idle(&self, idle_ms: u64, retain: u64, within: bool) {
        let (before, idle) = {
            let card = self.pool.driver().card();
            (card.now, card.is_idle() && card.captures == 0 && card.context_events)
        };
        let released = self.pool.release_while_idle(idle_ms, retain, usize::MAX);
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

    pub(crate) fn ask_idle(&self, within: bool) {
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

    pub(crate) fn export(&self, n: usize) {
        let Some((address, live)) = self.world.borrow().nth_live(n) else { return };
        let located = self.pool.export(address);
        let located = located.unwrap_or_else(|| panic!("{address:#x} is not to be found"));
        assert_eq!((located.block, located.state), (address, SlotState::Live));
        assert_eq!(located.requested_bytes, live.requested);
        let mut world = self.world.borrow_mut();
        world.exported.insert((live.serial, address));
        world.live.entry(address).and_modify(|live| live.exported = true);
    }
}

fn code(failure: Failure) -> u64 {
    match failure {
        Failure::OutOfMemory => 2,
        Failure::Other(code) => u64::from(code.0) << 8,
    }
}
