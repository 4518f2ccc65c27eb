//! Where plain device allocations lie, and how much of the card they take.
//!
//! Measured granularity (`facts/h200.md`, "Codes and identities"): up to 1 MiB, requests are
//! packed at 512-byte steps into shared 2 MiB pages; above that, they take whole pages. Address
//! space is never short: only pages count against the card.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::spans::Spans;

/// The driver's page.
pub(crate) const PAGE: u64 = 2 << 20;
const SMALL_LIMIT: u64 = 1 << 20;
const ALIGNMENT: u64 = 512;

/// Address ranges of one device.
#[derive(Debug)]
pub(crate) struct Heap {
    pages: Spans,
    small: BTreeMap<u64, Spans>,
    open: BTreeSet<u64>,
    recent: HashMap<u64, u64>,
    held: u64,
}

impl Heap {
    /// A heap over an address range that begins at a page boundary.
    pub(crate) fn new(base: u64, len: u64) -> Heap {
        Heap {
            pages: Spans::new(base, len),
            small: BTreeMap::new(),
            open: BTreeSet::new(),
            recent: HashMap::new(),
            held: 0,
        }
    }

    /// The bytes of the card in use.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The step at which a request of this size is served.
    pub(crate) fn rounded(size: u64) -> Option<u64> {
        size.checked_next_multiple_of(if size <= SMALL_LIMIT { ALIGNMENT } else { PAGE })
    }

    /// Takes an address for `size` bytes; `budget` is what the card can still give.
    pub(crate) fn take(&mut self, size: u64, budget: u64) -> Option<u64> {
        let rounded = Heap::rounded(size)?;
        if rounded <= SMALL_LIMIT {
            self.take_small(rounded, budget)
        } else {
            self.take_pages(rounded, budget)
        }
    }

    /// Takes whole pages, also for a small request.
    pub(crate) fn take_pages(&mut self, size: u64, budget: u64) -> Option<u64> {
        let rounded = size.checked_next_multiple_of(PAGE).filter(|rounded| *rounded <= budget)?;
        let base = self.pages.take(rounded)?;
        self.held += rounded;
        Some(base)
    }

    /// Gives whole pages back.
    pub(crate) fn give_pages(&mut self, base: u64, size: u64) {
        let rounded = size.next_multiple_of(PAGE);
        self.pages.give(base, rounded);
        self.held -= rounded;
    }

    /// Gives back what [`Heap::take`] gave for `size`.
    pub(crate) fn give(&mut self, base: u64, size: u64) {
        let rounded = Heap::rounded(size).unwrap_or(0);
        if rounded > SMALL_LIMIT {
            return self.give_pages(base, rounded);
        }
        let page = base - base % PAGE;
        if let Some(spans) = self.small.get_mut(&page) {
            spans.give(base, rounded);
            self.recent.insert(rounded, base);
            self.open.insert(page);
            if spans.bytes() == PAGE {
                self.small.remove(&page);
                self.open.remove(&page);
                self.give_pages(page, PAGE);
            }
        }
    }

    fn take_small(&mut self, len: u64, budget: u64) -> Option<u64> {
        if let Some(base) = self.recent.remove(&len)
            && self.take_at(base, len, budget)
        {
            return Some(base);
        }
        let open: Vec<u64> = self.open.iter().copied().collect();
        for page in open {
            if let Some(base) = self.small.get_mut(&page).and_then(|spans| spans.take(len)) {
                self.close_if_full(page);
                return Some(base);
            }
        }
        let page = self.take_pages(PAGE, budget)?;
        self.open_page(page);
        self.take_at(page, len, budget).then_some(page)
    }

    /// Takes a small range at a known place, whose page may have gone back to the card meanwhile.
    fn take_at(&mut self, base: u64, len: u64, budget: u64) -> bool {
        let page = base - base % PAGE;
        if !self.small.contains_key(&page) {
            if budget < PAGE || !self.pages.carve(page, PAGE) {
                return false;
            }
            self.held += PAGE;
            self.open_page(page);
        }
        let taken = self.small.get_mut(&page).is_some_and(|spans| spans.carve(base, len));
        self.close_if_full(page);
        taken
    }

    fn open_page(&mut self, page: u64) {
        self.small.insert(page, Spans::new(page, PAGE));
        self.open.insert(page);
    }

    fn close_if_full(&mut self, page: u64) {
        if self.small.get(&page).is_some_and(|spans| spans.bytes() == 0) {
            self.open.remove(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn heap() -> Heap {
        Heap::new(1 << 40, 1 << 40)
    }

    #[test]
    fn small_requests_are_packed() {
        let mut heap = heap();
        let mut blocks: Vec<_> = (0..10_000).filter_map(|_| heap.take(512, u64::MAX)).collect();
        assert_eq!(heap.held(), 6 * MIB);
        blocks.dedup();
        assert_eq!(blocks.len(), 10_000);
        blocks.iter().for_each(|base| heap.give(*base, 512));
        assert_eq!(heap.held(), 0);
    }

    #[test]
    fn above_one_mebibyte_whole_pages() {
        for (size, held) in [(MIB, 2), (MIB + 1, 2), (2 * MIB + 512, 4), (3 * MIB, 4)] {
            let mut heap = heap();
            let base = heap.take(size, u64::MAX).unwrap();
            assert_eq!((heap.held(), base % 512), (held * MIB, 0));
            assert!(size <= MIB || base.is_multiple_of(PAGE));
        }
        let mut heap = heap();
        assert!(heap.take(MIB, u64::MAX).is_some() && heap.take(MIB, u64::MAX).is_some());
        assert_eq!(heap.held(), 2 * MIB);
    }

    #[test]
    fn a_freed_address_serves_the_next_request_of_its_size() {
        for size in [512, 4096, 100_000, MIB, 3 * MIB, 64 * MIB] {
            let mut heap = heap();
            let blocks: Vec<_> = (0..8).filter_map(|_| heap.take(size, u64::MAX)).collect();
            for base in [blocks[5], blocks[2], blocks[7]] {
                heap.give(base, size);
                assert_eq!(heap.take(size, u64::MAX), Some(base));
            }
        }
    }

    #[test]
    fn the_card_can_be_full() {
        let mut heap = heap();
        assert_eq!(heap.take(3 * MIB, 3 * MIB), None);
        assert_eq!(heap.take(4096, MIB), None);
        assert_eq!(heap.take(u64::MAX, u64::MAX), None);
        assert_eq!(heap.held(), 0);
    }
}
