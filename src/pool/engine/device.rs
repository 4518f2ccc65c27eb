//! The engine of one device: what its users call.

use std::collections::BTreeSet;
use std::sync::{PoisonError, atomic::Ordering::Relaxed};

use super::guard::Guard;
use super::heap::Heap;
use super::lanes::{Lane, Lanes, What};
use super::rules::Rules;
use super::span::Mapping;
use super::stats::Stats;
use super::streams::{Home, Key, Streams, is_small};
use super::supply::{Pages, collect};
use super::sync::{AtomicU64, Mutex, MutexGuard};
use crate::cuda::{Card, CuResult, DevicePtr, Failure, StreamHandle};

/// What an engine is told at its birth.
#[derive(Debug, Clone, Copy)]
pub struct EngineSettings {
    /// Memory of the device, in bytes.
    pub total: u64,
    /// Bytes that may be taken from the driver.
    pub limit: Option<u64>,
    /// Share of the peak of live bytes that may be held beyond it before pages move.
    pub slack: f64,
}

/// An address that is freed, or said to be used, and that is no live block of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotLive;

/// The engine of one device.
#[derive(Debug)]
pub struct Engine<C> {
    pub(super) card: C,
    pub(super) settings: EngineSettings,
    pub(super) rules: Rules,
    /// Whether they round anything.
    pub(super) rounds: bool,
    limit: AtomicU64,
    pub(super) streams: Streams,
    pub(super) lanes: Lanes,
    pages: Mutex<Pages>,
}

impl<C: Card> Engine<C> {
    /// An engine without memory.
    pub fn new(card: C, settings: EngineSettings) -> Self {
        let limit = AtomicU64::new(settings.limit.unwrap_or(u64::MAX));
        Engine {
            card,
            settings,
            rules: Rules::NONE,
            rounds: false,
            limit,
            streams: Streams::new(),
            lanes: Lanes::default(),
            pages: Mutex::default(),
        }
    }

    /// The same engine with rules. It has no memory yet.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Engine { rules, rounds: !rules.divisions.are_none(), ..self }
    }

    /// The card that the engine was made with.
    pub fn card(&self) -> &C {
        &self.card
    }

    /// Counters for one thread. Calls take them so that threads do not fight over one.
    pub fn lane(&self) -> Lane {
        self.lanes.lane()
    }

    /// Bytes that may be taken from the driver.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Changes it. What is held beyond a lower limit stays until it is free.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.limit.store(bytes.unwrap_or(u64::MAX), Relaxed);
    }

    /// The heap of a key that had none: one whose stream or pool has ended, or a new one. Where no more can be made, one of those is
    /// waited for.
    #[cold]
    fn make_home(&self, key: Key) -> Result<&Home, CuResult> {
        let changes = self.streams.changes();
        if let Some(home) = self.streams.find(key) {
            return Ok(home);
        }
        let polled = self.streams.revive(&changes, key, |home, heap| self.poll(home, heap));
        let number = polled.map_or_else(
            || {
                let made =
                    self.streams.make(&changes, key, &self.card, self.settings.total, &self.rules);
                made.or_else(|code| {
                    let wait = |home: &Home, heap: &mut Heap| self.wait_for(home, heap);
                    self.streams.revive(&changes, key, wait).ok_or(code)
                })
            },
            Ok,
        )?;
        self.streams.enter(&changes, key, number)
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block of at least `requested` bytes for work on a stream. A private pool other than 0 is for captured graphs, which remember
    /// addresses and may be launched on any stream: its blocks lend no memory, and get only what nothing uses.
    ///
    /// # Errors
    /// Out of memory, after all that could be given back was; or what the driver says.
    #[inline]
    pub fn allocate(
        &self,
        lane: &mut Lane,
        requested: u64,
        stream: StreamHandle,
        pool: u64,
    ) -> Result<DevicePtr, Failure> {
        let Some(bytes) = self.block_bytes(requested) else {
            self.pages().stats.ooms += 1;
            return Err(Failure::OutOfMemory);
        };
        let key = Key { stream, pool, small: is_small(bytes) };
        let home = match self.streams.find(key) {
            Some(home) => home,
            None => self.make_home(key)?,
        };
        let hit = home.lock().take(bytes, requested);
        let (address, bytes) = match hit {
            Some(address) => (address, bytes),
            None => self.miss(home, bytes, requested)?,
        };
        self.lanes.add(lane, key.small, [bytes, requested, 1]);
        Ok(address)
    }

    /// Takes a block back. It may go to the next owner on its stream at once, and to others when the work is done. Returns its bytes.
    ///
    /// # Errors
    /// If no live block begins at the address; nothing has changed then.
    #[inline]
    pub fn free(&self, lane: &mut Lane, address: DevicePtr) -> Result<u64, NotLive> {
        let home = self.streams.owner(address).ok_or(NotLive)?;
        let mut heap = home.lock();
        let id = heap.live(address).ok_or(NotLive)?;
        let (bytes, requested) = (heap.blocks[id].bytes, heap.blocks[id].requested);
        if heap.uses.is_empty() || !self.wait_for_users(&mut heap, id) {
            heap.put(id);
        }
        drop(heap);
        self.lanes.sub(lane, is_small(bytes), [bytes, requested, 1]);
        Ok(bytes)
    }

    /// Another stream than its own uses a block: after its free, it waits for the work on that stream too.
    ///
    /// # Errors
    /// If no live block begins at the address.
    pub fn record_use(&self, address: DevicePtr, stream: StreamHandle) -> Result<(), NotLive> {
        let home = self.streams.owner(address).ok_or(NotLive)?;
        let mut heap = home.lock();
        let id = heap.live(address).ok_or(NotLive)?;
        let is_own = stream == home.stream() && !heap.is_over;
        let users = heap.uses.entry(id).or_default();
        if !is_own {
            users.add(stream);
        }
        Ok(())
    }

    /// A stream is about to be destroyed. Its memory goes to others when the work on it is done, and another stream of the same name
    /// has nothing to do with it. What is live stays so.
    pub fn forget_stream(&self, stream: StreamHandle) {
        let changes = self.streams.changes();
        for home in self.streams.all() {
            let mut heap = home.lock();
            if home.is_pinned() {
                // A graph may run there.
                heap.gate.add(stream);
            }
            self.forget_user(&mut heap, stream);
            if home.stream() == stream && !heap.is_over {
                self.close(home, &mut heap);
                self.streams.retire(&changes, home);
            }
        }
    }

    /// The last graph of a private pool is gone: its memory goes to others once it is freed and the work on it is done, that of its
    /// graphs too, on whichever stream they were launched. What is live stays so.
    pub fn forget_pool(&self, pool: u64) {
        let changes = self.streams.changes();
        let living = self.streams.all().filter(|home| !home.lock().is_over);
        let streams: BTreeSet<_> = living.map(Home::stream).collect();
        for home in self.streams.all().filter(|home| home.is_pinned() && home.pool() == pool) {
            let mut heap = home.lock();
            streams.iter().for_each(|&stream| heap.gate.add(stream));
            heap.gate.add_everything();
            self.record_users(&mut heap.gate);
            self.streams.retire(&changes, home);
            home.unpin();
        }
    }

    /// The numbers now.
    pub fn stats(&self) -> Stats {
        let pages = self.pages();
        let allocated = self.lanes.count(What::Allocated).at_most(pages.stats.reserved_bytes.peak);
        Stats {
            allocated_bytes: allocated,
            requested_bytes: self.lanes.count(What::Requested).at_most(allocated.peak),
            allocation: self.lanes.count(What::Blocks),
            small: self.lanes.small(),
            ..pages.stats
        }
    }

    /// From now on peaks are those from here.
    pub fn reset_peaks(&self) {
        self.lanes.reset_peaks();
        let stats = &mut self.pages().stats;
        for count in [&mut stats.reserved_bytes, &mut stats.handles] {
            count.peak = count.current;
        }
    }

    /// Bytes that nobody has, and that a trim would give back once the work on them is done.
    pub fn idle_bytes(&self) -> u64 {
        let idle = |home| {
            let (mut heap, mut victims) = (Home::lock(home), Vec::new());
            heap.settle();
            collect(home, &mut heap, (0, 0), true, &mut victims);
            victims.iter().map(|victim| victim.mapping.bytes).sum::<u64>()
        };
        self.streams.all().map(idle).sum()
    }

    /// Gives back to the driver what nobody has, waiting for the work in flight. Returns the bytes.
    pub fn trim(&self) -> u64 {
        let mut pages = self.pages();
        let before = pages.stats.reserved_bytes.current;
        self.wait_for_all();
        for home in self.streams.all() {
            let mut heap = home.lock();
            heap.settle();
            heap.loosen_all();
            let mut victims = Vec::new();
            collect(home, &mut heap, (0, 0), false, &mut victims);
            for victim in victims {
                let Mapping { handle, bytes, .. } = victim.mapping;
                if self.detach(home, &mut heap, &[victim.mapping]) {
                    self.release(&mut pages, handle, bytes);
                }
            }
        }
        self.release_spare(&mut pages);
        pages.guard = Guard::default();
        self.lanes.forget_recent();
        before - pages.stats.reserved_bytes.current
    }
}
