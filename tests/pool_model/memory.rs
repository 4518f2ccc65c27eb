//! Addresses of the card, as an H200 gives them: up to 1 MiB packed at 512 bytes, above it multiples of 2 MiB; the lowest
//! address that fits, so that memory given back comes again at once.

use std::collections::BTreeMap;

pub(crate) const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
const FIRST: u64 = 0x7_0000_0000;

/// One allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) address: u64,
    /// As asked.
    pub(crate) bytes: u64,
    /// No two allocations have the same.
    pub(crate) serial: u64,
    /// The driver failed to take it back: nobody has it, and nobody gets it.
    pub(crate) lost: bool,
}

impl Held {
    fn pages(&self) -> (u64, u64) {
        let end = (self.address + self.bytes).next_multiple_of(PAGE);
        (self.address / PAGE, end / PAGE)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Memory {
    held: BTreeMap<u64, Held>,
    serial: u64,
}

impl Memory {
    /// Takes `bytes` if the card has `capacity` bytes.
    pub(crate) fn take(&mut self, bytes: u64, capacity: u64) -> Option<u64> {
        if !self.fits(bytes, capacity, |_| true) {
            return None;
        }
        let address = match bytes <= MIB {
            true => self.packed(bytes, |_| true).or_else(|| self.pages(PAGE)),
            false => self.pages(bytes),
        }?;
        self.serial += 1;
        let held = Held { address, bytes, serial: self.serial, lost: false };
        self.held.insert(address, held);
        Some(address)
    }

    /// Whether the card could give `bytes` if it held only what `keeps` says, and what is lost.
    pub(crate) fn fits(&self, bytes: u64, capacity: u64, keeps: impl Fn(&Held) -> bool) -> bool {
        let keeps = |held: &Held| held.lost || keeps(held);
        if bytes <= MIB && self.packed(bytes, keeps).is_some() {
            return true;
        }
        let (mut used, mut counted) = (0, 0);
        for held in self.held.values().filter(|held| keeps(held)) {
            let (first, end) = held.pages();
            used += end.saturating_sub(first.max(counted)) * PAGE;
            counted = end;
        }
        let need = bytes.checked_next_multiple_of(PAGE);
        need.is_some_and(|need| used + need <= capacity)
    }

    /// The lowest hole of a page of small blocks.
    fn packed(&self, bytes: u64, keeps: impl Fn(&Held) -> bool) -> Option<u64> {
        let bytes = bytes.next_multiple_of(512);
        let mut end = 0;
        for held in self.held.values().filter(|held| held.bytes <= MIB && keeps(held)) {
            // A hole before the block in its own page, or behind the last one in that one's page.
            let start = (held.address / PAGE * PAGE).max(end);
            if end % PAGE != 0 && end.next_multiple_of(PAGE) - end >= bytes && start > end {
                return Some(end);
            }
            if held.address - start >= bytes {
                return Some(start);
            }
            end = (held.address + held.bytes).next_multiple_of(512);
        }
        (end % PAGE != 0 && end.next_multiple_of(PAGE) - end >= bytes).then_some(end)
    }

    /// The lowest run of free pages.
    fn pages(&self, bytes: u64) -> Option<u64> {
        let need = bytes.checked_next_multiple_of(PAGE)? / PAGE;
        let mut free = FIRST / PAGE;
        for held in self.held.values() {
            let (first, end) = held.pages();
            if first.saturating_sub(free) >= need {
                break;
            }
            free = free.max(end);
        }
        Some(free * PAGE)
    }

    /// The allocation that starts here.
    pub(crate) fn at(&self, address: u64) -> Option<Held> {
        self.held.get(&address).copied().filter(|held| !held.lost)
    }

    /// The allocation that an address lies in.
    pub(crate) fn around(&self, address: u64) -> Option<Held> {
        let (_, held) = self.held.range(..=address).next_back()?;
        (!held.lost && address - held.address < held.bytes).then_some(*held)
    }

    pub(crate) fn give_back(&mut self, address: u64) {
        self.held.remove(&address);
    }

    pub(crate) fn lose(&mut self, address: u64) {
        if let Some(held) = self.held.get_mut(&address) {
            held.lost = true;
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Held> {
        self.held.values().filter(|held| !held.lost)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.all().map(|held| held.bytes).sum()
    }
}

#[test]
fn small_blocks_are_packed_and_large_ones_aligned() {
    let mut memory = Memory::default();
    let mut take = |bytes| memory.take(bytes, 8 * MIB);
    assert_eq!(take(1), Some(FIRST));
    assert_eq!(take(MIB), Some(FIRST + 512));
    assert_eq!(take(MIB + 1), Some(FIRST + PAGE));
    assert_eq!(take(MIB), Some(FIRST + 2 * PAGE));
    assert_eq!(take(512), Some(FIRST + 512 + MIB));
    assert_eq!((take(2 * MIB), take(1)), (Some(FIRST + 3 * PAGE), Some(FIRST + 1024 + MIB)));
    assert_eq!((take(2 * MIB), take(u64::MAX)), (None, None));
    memory.give_back(FIRST);
    assert_eq!(memory.take(512, 8 * MIB), Some(FIRST));
    assert!(memory.fits(4 * MIB, 8 * MIB, |held| held.bytes < MIB));
    assert!(!memory.fits(8 * MIB, 8 * MIB, |held| held.bytes < MIB));
}
