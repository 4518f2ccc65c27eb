//! A segment: one allocation of the driver, cut into slots of one size. A whole block is a segment with one slot.

/// Where a slot is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// In the program's hands.
    Live,
    /// Freed; work that uses it may still run.
    Waiting,
    /// Free to be handed out.
    Ready,
    /// Freed, but a peer process may have it open: never handed out again.
    Withheld,
}

/// One slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) state: SlotState,
    /// A peer process was given it.
    pub(super) exported: bool,
    /// Size as requested, of the last owner.
    pub(super) requested: u64,
    /// What the caller said of the last allocation and the last free; 0 for none.
    pub(super) allocated_by: u64,
    pub(super) freed_by: u64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) slot_bytes: u64,
    pub(super) slots: Vec<Slot>,
    /// One bit a slot, set while it is ready.
    ready: Vec<u64>,
    /// Slots by state; see [`count`](Self::count).
    counts: [u32; 4],
    /// When the last slot became ready, in milliseconds.
    pub(super) idle_since_ms: u64,
}

const NEW: Slot =
    Slot { state: SlotState::Ready, exported: false, requested: 0, allocated_by: 0, freed_by: 0 };

impl Segment {
    /// A segment just taken from the driver, all of its slots ready.
    pub(super) fn new(address: u64, bytes: u64, slot_bytes: u64, slots: u32, now_ms: u64) -> Self {
        let words = (slots as usize).div_ceil(64);
        let mut segment = Segment {
            address,
            bytes,
            slot_bytes,
            slots: vec![NEW; slots as usize],
            ready: vec![0; words],
            counts: [0; 4],
            idle_since_ms: now_ms,
        };
        segment.counts[SlotState::Ready as usize] = slots;
        for slot in 0..slots as usize {
            segment.ready[slot / 64] |= 1 << (slot % 64);
        }
        segment
    }

    pub(super) fn is_whole(&self) -> bool {
        self.slots.len() == 1
    }

    /// Number of slots in a state.
    pub(super) fn count(&self, state: SlotState) -> u32 {
        self.counts[state as usize]
    }

    /// Nothing in it is live, or waits: it may go back to the driver.
    pub(super) fn is_idle(&self) -> bool {
        self.count(SlotState::Live) == 0 && self.count(SlotState::Waiting) == 0
    }

    pub(super) fn slot_address(&self, slot: u32) -> u64 {
        self.address + u64::from(slot) * self.slot_bytes
    }

    /// The slot that an address lies in, and whether it is its first byte.
    pub(super) fn slot_at(&self, address: u64) -> Option<(u32, bool)> {
        let offset = address.checked_sub(self.address).filter(|&offset| offset < self.bytes)?;
        let slot = (offset / self.slot_bytes) as u32;
        ((slot as usize) < self.slots.len()).then_some((slot, offset % self.slot_bytes == 0))
    }

    /// The first ready slot.
    pub(super) fn first_ready(&self) -> Option<u32> {
        let word = self.ready.iter().position(|&word| word != 0)?;
        Some(word as u32 * 64 + self.ready[word].trailing_zeros())
    }

    /// Moves a slot to another state.
    pub(super) fn set(&mut self, slot: u32, state: SlotState) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        let before = std::mem::replace(&mut self.slots[slot as usize].state, state);
        self.counts[before as usize] -= 1;
        self.counts[state as usize] += 1;
        match state {
            SlotState::Ready => self.ready[word] |= bit,
            _ => self.ready[word] &= !bit,
        }
    }

    /// A peer process was given one of the slots.
    pub(super) fn is_exported(&self) -> bool {
        self.slots.iter().any(|slot| slot.exported)
    }
}
