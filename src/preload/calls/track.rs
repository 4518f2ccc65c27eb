//! The books of a block: its site, its counters, its place among the live ones.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::super::process::{Process, lock};
use super::super::{clock, stack, trace};
use crate::conf::Stacks;
use crate::cuda::{CuResult, real};
use crate::ledger::{Block, Kind, MAX_DEVICES, SiteId};

/// Allocations of this size and more are sampled always.
const SAMPLE_ALWAYS: u64 = 1 << 20;
/// Below it, one in so many.
const SAMPLE_EVERY: u64 = 64;
/// Stacks of frees that are kept.
const FREE_STACKS: usize = 4096;
/// Subject of a free's stack, apart from every (kind, device).
const FREE: u64 = u64::MAX;

impl Process {
    /// Nanoseconds since the first hooked call.
    pub(in super::super) fn age_ns(&self) -> u64 {
        self.age_ms() * 1_000_000
    }

    /// The call site of the present call.
    pub(in super::super) fn site(&self, kind: Kind, device: u32, bytes: u64) -> SiteId {
        static SEEN: AtomicU64 = AtomicU64::new(0);
        let sampled =
            || bytes >= SAMPLE_ALWAYS || SEEN.fetch_add(1, Relaxed).is_multiple_of(SAMPLE_EVERY);
        let take = match self.settings.stacks {
            Stacks::Full => true,
            Stacks::Sampled => sampled(),
            Stacks::Off => false,
        };
        if !take {
            return self.sites().intern(&[], kind, device);
        }
        let subject = kind as u64 | u64::from(device) << 8;
        let intern = |stack: &[u64]| u64::from(self.sites().intern(stack, kind, device));
        stack::token(subject, intern) as SiteId
    }

    /// A tag under which the stack of the present free is kept; 0 without one.
    pub(in super::super) fn free_tag(&self) -> u64 {
        if !self.settings.free_stacks {
            return 0;
        }
        stack::token(FREE, |stack| {
            let mut hasher = DefaultHasher::new();
            stack.hash(&mut hasher);
            let tag = hasher.finish().max(1);
            let mut stacks = lock(&self.free_stacks);
            if stacks.len() < FREE_STACKS {
                stacks.entry(tag).or_insert_with(|| stack.to_vec());
            }
            tag
        })
    }

    /// A block is in the program's hands.
    pub(in super::super) fn learn(&self, address: u64, block: Block) {
        self.count(&block);
        trace_allocated(address, &block);
        // A block that was there before ended in a way that nobody saw, as with a context that the driver took down.
        if let Some(lost) = self.live.insert(address, block) {
            self.forget(&lost);
        }
    }

    /// The counters of [`learn`](Self::learn), for a block that is kept elsewhere.
    pub(in super::super) fn count(&self, block: &Block) {
        self.books.add(block.kind, block.device, block.bytes);
        self.sites().add(block.site, block.bytes);
    }

    /// A block left them; it is out of the live ones already.
    pub(in super::super) fn forget(&self, block: &Block) {
        self.uncount(block);
        self.note_late_free(*block);
    }

    pub(super) fn uncount(&self, block: &Block) {
        self.books.sub(block.kind, block.device, block.bytes);
        self.sites().sub(block.site, block.bytes);
        if is_budgeted(block.kind) {
            self.budget(block.device).put_back(block.bytes);
        }
    }

    /// A block that the present call allocated.
    pub(in super::super) fn block(&self, kind: Kind, device: u32, bytes: u64, home: u64) -> Block {
        // The books have room for so many; memory of further devices is counted on the last.
        let device = device.min(MAX_DEVICES as u32 - 1);
        let site = self.site(kind, device, bytes);
        Block { bytes, kind, device, home, site, at_ms: self.age_ms() as u32 }
    }

    /// Lets a free through to the driver: the block is forgotten first, and remembered again if the driver refuses.
    pub(in super::super) fn forward_free(
        &self,
        address: u64,
        block: Option<Block>,
        free: impl FnOnce() -> CuResult,
    ) -> CuResult {
        let Some(block) = block else { return free() };
        self.uncount(&block);
        let code = free();
        if code.is_ok() {
            self.note_late_free(block);
        } else {
            if is_budgeted(block.kind) {
                self.budget(block.device).force(block.bytes);
            }
            self.relearn(address, block);
        }
        code
    }

    /// A block that was uncounted is live after all. It was allocated once.
    pub(super) fn relearn(&self, address: u64, block: Block) {
        self.books.add(block.kind, block.device, block.bytes);
        self.sites().restore(block.site, block.bytes);
        trace_allocated(address, &block);
        self.live.insert(address, block);
    }

    /// Asks the driver what is used on the current device, at most every 20 ms, for the report's equation.
    pub(in super::super) fn sample(&self, device: u32) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the write. Safe during captures (measured).
        let mut ask = || unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) };
        if self.sampler(device).asked.passed(20) && ask().is_ok() {
            self.take_sample(device, free as u64, total as u64);
        }
    }

    /// Writes down what the driver said.
    pub(in super::super) fn take_sample(&self, device: u32, free: u64, total: u64) {
        let book = self.books.device(device);
        book.driver_used.set(total.saturating_sub(free));
        book.tracked_at_sample.store(book.tracked_bytes(), Relaxed);
        book.sampled_unix_ns.store(clock::unix_ns(), Relaxed);
    }
}

/// Memory of the device that somebody allocated is in the trace, if there is one. The stream is not known at this level.
fn trace_allocated(address: u64, block: &Block) {
    if !matches!(block.kind, Kind::Host | Kind::Vmm) {
        trace::allocated(block.device, address, block.bytes, trace::NO_STREAM);
    }
}

/// Whether memory of this kind is taken from the budget block by block; the pool takes whole segments.
fn is_budgeted(kind: Kind) -> bool {
    matches!(kind, Kind::Direct | Kind::Async | Kind::Managed | Kind::Vmm)
}
