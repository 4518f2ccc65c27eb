//! Live at exit: what of it is a leak.
//!
//! Device memory that is live at exit is rarely one: caching allocators free nothing at exit, a model lives as long as its
//! job, libraries keep workspaces. So each block gets a class, by what is known about its whole site first and by its own
//! age then:
//!
//! 1. *held by a cache*: a caching allocator is in the stack;
//! 2. *growing*: blocks live from four of the eight parts of the run. In a run under half a second, whose parts say little,
//!    also: at least eight blocks live, and no fewer than half of all that the site ever allocated;
//! 3. *start-up*, for a library that takes workspaces once (cuBLAS, NCCL, ...), whenever that was;
//! 4. *start-up*, for a block from the first eighth of the run. A run under half a second has no start-up: in a small test
//!    program, a leak is a leak;
//! 5. *never freed*: the rest.
//!
//! What is freed after exit has begun, by static destructors, is a class of its own.

use std::collections::HashMap;

use crate::ledger::{Block, SiteId};

use super::sites::SiteIndex;
use super::{Frame, Kind, Leak, LeakClass, Reason, Site, Snapshot, owner};

/// Parts into which a run is cut.
const PARTS: u64 = 8;
/// Parts from which blocks must be live for their site to grow.
const GROWING_PARTS: u32 = 4;
/// Live blocks that make a site grow in a short run.
const GROWING_BLOCKS: u64 = 8;
/// A run under this has no start-up and no steady state.
const SHORT_RUN_NS: u64 = 500_000_000;

/// Parts of symbols that only caching allocators have.
const CACHES: &[&str] =
    &["CUDACachingAllocator", "BFCAllocator", "pool_memory_resource", "MemoryPool"];
/// The library whose only allocations are those of PyTorch's caching allocator, for when it has no symbols.
const TORCH_CACHE: &str = "libc10_cuda";
/// Switches that cache off, so that the same stack is a tensor's.
const TORCH_NO_CACHE: &str = "PYTORCH_NO_CUDA_MEMORY_CACHING";

impl LeakClass {
    /// Whether memory of this class may be a leak.
    pub const fn is_suspect(self) -> bool {
        matches!(self, LeakClass::Growing | LeakClass::NeverFreed)
    }
}

/// Blocks that were live when the process ended, by site.
pub(super) struct LiveAtExit {
    live: HashMap<SiteId, Vec<Block>>,
    freed_during_exit: HashMap<SiteId, Vec<Block>>,
    run_ns: u64,
    torch_caches: bool,
}

/// Entries by device, and the bytes of those whose site is not in the report.
pub(super) struct Classified {
    pub(super) by_device: HashMap<u32, Vec<Leak>>,
    pub(super) cut_bytes: u64,
}

impl LiveAtExit {
    /// Nothing, unless the process is ending.
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let ended = matches!(snapshot.reason, Reason::Exit | Reason::ImmediateExit | Reason::Abort);
        let live = snapshot.live.iter().flatten().map(|(_, block)| *block).filter(|_| ended);
        let freed = snapshot.freed_during_exit.iter().filter(|_| ended);
        let environment = &snapshot.process.environment;
        LiveAtExit {
            live: by_site(live.map(|block| (block.site, block))),
            freed_during_exit: by_site(freed.copied()),
            run_ns: snapshot.process.duration_ns,
            torch_caches: environment.get(TORCH_NO_CACHE).is_none_or(|v| v.is_empty() || v == "0"),
        }
    }

    pub(super) fn classify(
        &self,
        sites: &[Site],
        frames: &[Frame],
        index: &SiteIndex,
    ) -> Classified {
        let mut by_device: HashMap<u32, Vec<Leak>> = HashMap::new();
        let mut cut_bytes = 0u64;
        let entries = self.live.iter().map(|(&id, blocks)| (id, blocks, false));
        let freed = self.freed_during_exit.iter().map(|(&id, blocks)| (id, blocks, true));
        for (id, blocks, freed) in entries.chain(freed) {
            let site = index.get(id).and_then(|at| Some((at, sites.get(at as usize)?)));
            let Some((at, site)) = site else {
                cut_bytes =
                    blocks.iter().fold(cut_bytes, |sum, block| sum.saturating_add(block.bytes));
                continue;
            };
            let leaks = if freed {
                vec![self.leak(at, LeakClass::FreedDuringExit, blocks)]
            } else {
                self.classify_site(at, site, self.is_cache(site, frames), blocks)
            };
            by_device.entry(site.device.unwrap_or_default()).or_default().extend(leaks);
        }
        for leaks in by_device.values_mut() {
            leaks.sort_by(|a, b| {
                a.class.cmp(&b.class).then(b.bytes.cmp(&a.bytes)).then(a.site.cmp(&b.site))
            });
        }
        Classified { by_device, cut_bytes }
    }

    fn classify_site(&self, at: u32, site: &Site, cache: bool, blocks: &[Block]) -> Vec<Leak> {
        if cache {
            return vec![self.leak(at, LeakClass::HeldByCache, blocks)];
        }
        let all = self.leak(at, LeakClass::Growing, blocks);
        let many =
            all.blocks >= GROWING_BLOCKS && all.blocks.saturating_mul(2) >= site.total_blocks;
        if all.parts_of_run >= GROWING_PARTS || (self.is_short() && many) {
            return vec![all];
        }
        if owner::keeps_workspaces(&site.owner) {
            return vec![self.leak(at, LeakClass::StartUp, blocks)];
        }
        let early = |block: &&Block| !self.is_short() && self.part(block) == 0;
        let (early, late): (Vec<&Block>, Vec<&Block>) = blocks.iter().partition(early);
        let classes = [(LeakClass::NeverFreed, late), (LeakClass::StartUp, early)];
        let some = classes.into_iter().filter(|(_, blocks)| !blocks.is_empty());
        some.map(|(class, blocks)| self.leak(at, class, blocks)).collect()
    }

    fn leak<'a>(
        &self,
        site: u32,
        class: LeakClass,
        blocks: impl IntoIterator<Item = &'a Block>,
    ) -> Leak {
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        let mut leak =
            Leak { class, site, bytes: 0, blocks: 0, parts_of_run: 0, first_ns: 0, last_ns };
        let mut parts = 0u8;
        for block in blocks {
            leak.bytes = leak.bytes.saturating_add(block.bytes);
            leak.blocks += 1;
            first_ns = first_ns.min(at_ns(block));
            last_ns = last_ns.max(at_ns(block));
            parts |= 1 << self.part(block);
        }
        Leak { first_ns, last_ns, parts_of_run: parts.count_ones(), ..leak }
    }

    /// Which of the eight parts of the run the block is from.
    fn part(&self, block: &Block) -> u64 {
        let part = u128::from(at_ns(block)) * u128::from(PARTS) / u128::from(self.run_ns.max(1));
        (part as u64).min(PARTS - 1)
    }

    fn is_short(&self) -> bool {
        self.run_ns < SHORT_RUN_NS
    }

    /// Whether the site is a caching allocator taking a segment.
    fn is_cache(&self, site: &Site, frames: &[Frame]) -> bool {
        if site.owner == "torch" && !self.torch_caches {
            return false;
        }
        let mut stack = site.stack.iter().filter_map(|&at| frames.get(at as usize));
        let caller = stack.clone().find(|frame| !owner::is_plumbing(&frame.module));
        let marked = |frame: &Frame| {
            let symbol = frame.symbol.as_deref().unwrap_or_default();
            CACHES.iter().any(|mark| symbol.contains(mark))
        };
        caller.is_some_and(|frame| frame.module.starts_with(TORCH_CACHE)) || stack.any(marked)
    }
}

fn at_ns(block: &Block) -> u64 {
    u64::from(block.at_ms) * 1_000_000
}

/// Device memory only: pinned host memory is not what a card runs out of.
fn by_site(blocks: impl Iterator<Item = (SiteId, Block)>) -> HashMap<SiteId, Vec<Block>> {
    let mut by_site: HashMap<SiteId, Vec<Block>> = HashMap::new();
    for (site, block) in blocks.filter(|(_, block)| block.kind != Kind::Host) {
        by_site.entry(site).or_default().push(block);
    }
    by_site
}
