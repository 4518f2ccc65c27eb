//! Call sites: one slot for each stack, kind of call and device, with its counters.
//!
//! An open-addressed table of atomics, filled without locks: the thread that wins the key writes the frames, the others
//! count in the slot at once. Slots are never freed.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::{Books, Kind, Ratchet, SITE_DEPTH, SITES};

/// Index of a slot in [`Books::sites`].
pub type SiteId = u32;

/// One call site.
#[derive(Debug)]
#[repr(C)]
pub struct SiteSlot {
    /// Hash of stack, kind and device; 0 while the slot is free.
    key: AtomicU64,
    /// Kind in the low byte, device above.
    what: AtomicU32,
    /// Number of frames; 0 until they are written.
    depth: AtomicU32,
    /// Bytes live.
    pub live: Ratchet,
    /// Blocks live.
    pub live_blocks: AtomicU64,
    /// Bytes ever.
    pub total_bytes: AtomicU64,
    /// Blocks ever.
    pub total_blocks: AtomicU64,
    frames: [AtomicU64; SITE_DEPTH],
}

impl SiteSlot {
    /// How the memory was got; none for a free slot.
    pub fn kind(&self) -> Option<Kind> {
        (self.key.load(Acquire) != 0).then(|| Kind::from_index(self.what.load(Relaxed) as u8))
    }

    /// The device, meaningless for host memory.
    pub fn device(&self) -> u32 {
        self.what.load(Relaxed) >> 8
    }

    /// Return addresses, innermost first; empty where no stack was taken.
    pub fn frames(&self) -> Vec<u64> {
        let depth = self.depth.load(Acquire) as usize;
        self.frames.iter().take(depth).map(|frame| frame.load(Relaxed)).collect()
    }
}

/// Slots for sites with a stack; those without one have the rest.
const STACKS: usize = SITES / 4 * 3;
/// Slots that are looked at before the table counts as full.
const PROBES: usize = 512;

/// The table, seen through its operations.
#[derive(Debug, Clone, Copy)]
pub struct Sites<'a> {
    books: &'a Books,
}

impl<'a> Sites<'a> {
    /// The sites of `books`.
    pub fn of(books: &'a Books) -> Self {
        Sites { books }
    }

    /// The site of a stack (innermost frame first; cut at [`SITE_DEPTH`]). A full table answers with the site that has no
    /// stack, or with slot 0 when even that has no room.
    pub fn intern(&self, stack: &[u64], kind: Kind, device: u32) -> SiteId {
        let stack = &stack[..stack.len().min(SITE_DEPTH)];
        if let Some(site) = self.find_or_insert(stack, kind, device) {
            return site;
        }
        self.books.site_table_full.fetch_add(1, Relaxed);
        self.find_or_insert(&[], kind, device).unwrap_or(0)
    }

    fn find_or_insert(&self, stack: &[u64], kind: Kind, device: u32) -> Option<SiteId> {
        let what = kind as u32 | device << 8;
        let key = hash(stack, what);
        // The last quarter of the table is kept for sites without a stack, so that a full table still tells kinds apart.
        let (from, room) = match stack.is_empty() {
            true => (STACKS, SITES - STACKS),
            false => (0, STACKS),
        };
        for probe in 0..room.min(PROBES) {
            let index = from + (key as usize).wrapping_add(probe) % room;
            let slot = &self.books.sites[index];
            match slot.key.load(Acquire) {
                0 => match slot.key.compare_exchange(0, key, AcqRel, Acquire) {
                    Ok(_) => {
                        slot.what.store(what, Relaxed);
                        for (to, from) in slot.frames.iter().zip(stack) {
                            to.store(*from, Relaxed);
                        }
                        slot.depth.store(stack.len() as u32, Release);
                        return Some(index as SiteId);
                    }
                    Err(other) if other == key => return Some(index as SiteId),
                    Err(_) => {}
                },
                other if other == key => return Some(index as SiteId),
                _ => {}
            }
        }
        None
    }

    /// The slot of a site.
    pub fn slot(&self, site: SiteId) -> &'a SiteSlot {
        &self.books.sites[site as usize % SITES]
    }

    /// A block was allocated there.
    pub fn add(&self, site: SiteId, bytes: u64) {
        let slot = self.slot(site);
        slot.live.add(bytes);
        slot.live_blocks.fetch_add(1, Relaxed);
        slot.total_bytes.fetch_add(bytes, Relaxed);
        slot.total_blocks.fetch_add(1, Relaxed);
    }

    /// A block from there is live after all: its free was refused.
    pub fn restore(&self, site: SiteId, bytes: u64) {
        let slot = self.slot(site);
        slot.live.add(bytes);
        slot.live_blocks.fetch_add(1, Relaxed);
    }

    /// A block from there was freed.
    pub fn sub(&self, site: SiteId, bytes: u64) {
        let slot = self.slot(site);
        slot.live.sub(bytes);
        let less_one = |n: u64| Some(n.saturating_sub(1));
        let _ = slot.live_blocks.fetch_update(Relaxed, Relaxed, less_one);
    }

    /// Every site in use.
    pub fn iter(&self) -> impl Iterator<Item = (SiteId, &'a SiteSlot)> + use<'a> {
        let used = |slot: &SiteSlot| slot.key.load(Acquire) != 0;
        let slots = self.books.sites.iter().enumerate();
        slots.filter(move |(_, slot)| used(slot)).map(|(index, slot)| (index as SiteId, slot))
    }
}

/// FNV-1a over the words, then a finalizer: return addresses differ in few bits.
fn hash(stack: &[u64], what: u32) -> u64 {
    let step = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
    let mut hash =
        stack.iter().fold(step(0xcbf2_9ce4_8422_2325, what as u64 + 1), |h, &w| step(h, w));
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash ^ hash >> 29).max(1)
}
