//! Free address ranges: neighbours merge, and a range that was just given back is found first.
//!
//! The driver gives the address of a freed block to the next request of that size, so lookups
//! try the newest ranges of exactly that size before they search for the lowest fit.

use std::collections::{BTreeMap, HashMap};

/// Remembered addresses for each size; older ones are found by the search.
const REMEMBERED: usize = 64;

/// A set of disjoint free ranges.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    free: BTreeMap<u64, u64>,
    recent: HashMap<u64, Vec<u64>>,
    bytes: u64,
}

impl Spans {
    pub(crate) fn new(base: u64, len: u64) -> Spans {
        Spans { free: BTreeMap::from([(base, len)]), recent: HashMap::new(), bytes: len }
    }

    /// Takes `len` bytes.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        while let Some(base) = self.recent.get_mut(&len).and_then(Vec::pop) {
            if self.carve(base, len) {
                return Some(base);
            }
        }
        let base = self.free.iter().find(|(_, span)| **span >= len).map(|(base, _)| *base)?;
        self.carve(base, len).then_some(base)
    }

    /// Takes exactly the range, if all of it is free.
    pub(crate) fn carve(&mut self, base: u64, len: u64) -> bool {
        let Some((&start, &span)) = self.free.range(..=base).next_back() else { return false };
        let (end, span_end) = (base + len, start + span);
        if end > span_end {
            return false;
        }
        self.free.remove(&start);
        self.bytes -= len;
        if base > start {
            self.free.insert(start, base - start);
        }
        if span_end > end {
            self.free.insert(end, span_end - end);
        }
        true
    }

    /// Gives a range back.
    pub(crate) fn give(&mut self, base: u64, len: u64) {
        self.bytes += len;
        let (mut start, mut end) = (base, base + len);
        if let Some((&before, &span)) = self.free.range(..base).next_back()
            && before + span == base
        {
            start = before;
        }
        if let Some(&span) = self.free.get(&end) {
            self.free.remove(&end);
            end += span;
        }
        self.free.insert(start, end - start);
        let remembered = self.recent.entry(len).or_default();
        if remembered.len() == REMEMBERED {
            remembered.remove(0);
        }
        remembered.push(base);
    }

    /// The bytes that are free.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_the_newest_comes_first() {
        let mut spans = Spans::new(0, 100);
        let blocks: Vec<_> = (0..10).filter_map(|_| spans.take(10)).collect();
        assert_eq!(spans.take(1), None);
        spans.give(blocks[1], 10);
        spans.give(blocks[7], 10);
        assert_eq!(spans.take(10), Some(blocks[7]));
        assert_eq!(spans.take(10), Some(blocks[1]));
        blocks.iter().for_each(|base| spans.give(*base, 10));
        assert_eq!((spans.bytes(), spans.take(100)), (100, Some(0)));
    }
}
