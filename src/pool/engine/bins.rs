//! Free blocks by size: two levels of bitmaps over lists.
//!
//! Sizes are counted in units of 512 bytes. Up to 32 units each size has a bin of its own; above, each doubling has 32. A
//! search looks at a few blocks of the bin that the size falls into, and else at the next bin that is not empty, where every
//! block fits: so it is near best fit, in constant time. Finding that bin takes two bit scans.
//!
//! The links lie in the blocks: [`Bins`] holds the heads alone.

use super::blocks::{Blocks, Id, NONE};

/// Bits of a size that tell bins of one doubling apart.
const FINE_BITS: u32 = 5;
const FINE: usize = 1 << FINE_BITS;
/// Doublings: sizes up to 2^36 units, 32 TiB.
const COARSE: usize = 32;
/// Blocks of a bin that a search looks at.
const PROBES: usize = 8;

#[derive(Debug)]
pub(super) struct Bins {
    coarse: u32,
    fine: [u32; COARSE],
    heads: Box<[[Id; FINE]; COARSE]>,
}

/// The bin of a size in units: doubling, and part of it.
fn bin(units: u64) -> (usize, usize) {
    if units < FINE as u64 {
        return (0, units as usize);
    }
    let doubling = units.ilog2() - FINE_BITS;
    let part = (units >> doubling) as usize & (FINE - 1);
    ((doubling as usize + 1).min(COARSE - 1), part)
}

impl Bins {
    pub(super) fn new() -> Self {
        Bins { coarse: 0, fine: [0; COARSE], heads: Box::new([[NONE; FINE]; COARSE]) }
    }

    pub(super) fn insert(&mut self, blocks: &mut Blocks, id: Id) {
        let (coarse, fine) = bin(blocks[id].units());
        let head = std::mem::replace(&mut self.heads[coarse][fine], id);
        blocks[id].bin_next = head;
        blocks[id].bin_prev = NONE;
        if head != NONE {
            blocks[head].bin_prev = id;
        }
        self.fine[coarse] |= 1 << fine;
        self.coarse |= 1 << coarse;
    }

    pub(super) fn remove(&mut self, blocks: &mut Blocks, id: Id) {
        let (prev, next) = (blocks[id].bin_prev, blocks[id].bin_next);
        if next != NONE {
            blocks[next].bin_prev = prev;
        }
        if prev != NONE {
            blocks[prev].bin_next = next;
            return;
        }
        let (coarse, fine) = bin(blocks[id].units());
        self.heads[coarse][fine] = next;
        if next == NONE {
            self.fine[coarse] &= !(1 << fine);
            if self.fine[coarse] == 0 {
                self.coarse &= !(1 << coarse);
            }
        }
    }

    /// The smallest of a few blocks that hold `units`.
    pub(super) fn find(&self, blocks: &Blocks, units: u64) -> Option<Id> {
        let (coarse, fine) = bin(units);
        let own = self.smallest(blocks, self.heads[coarse][fine], units);
        own.or_else(|| {
            let (coarse, fine) = self.next(coarse, fine)?;
            self.smallest(blocks, self.heads[coarse][fine], units)
        })
        // More than a few blocks of the own bin are too small: one further down may fit.
        .or_else(|| {
            self.list(blocks, self.heads[coarse][fine]).find(|&id| blocks[id].units() >= units)
        })
    }

    fn smallest(&self, blocks: &Blocks, head: Id, units: u64) -> Option<Id> {
        let fits = self.list(blocks, head).take(PROBES).filter(|&id| blocks[id].units() >= units);
        fits.min_by_key(|&id| blocks[id].bytes)
    }

    fn list<'a>(&self, blocks: &'a Blocks, head: Id) -> impl Iterator<Item = Id> + use<'a> {
        let some = |id| (id != NONE).then_some(id);
        std::iter::successors(some(head), move |&id| some(blocks[id].bin_next))
    }

    /// The next bin that is not empty.
    fn next(&self, coarse: usize, fine: usize) -> Option<(usize, usize)> {
        let above = self.fine[coarse] & (u32::MAX << fine) & !(1 << fine);
        if above != 0 {
            return Some((coarse, above.trailing_zeros() as usize));
        }
        let coarse = self.coarse & u32::MAX.checked_shl(coarse as u32 + 1).unwrap_or(0);
        let coarse = (coarse != 0).then(|| coarse.trailing_zeros() as usize)?;
        Some((coarse, self.fine[coarse].trailing_zeros() as usize))
    }

    /// Every block of at least `units`, smallest bins first.
    pub(super) fn at_least<'a>(
        &'a self,
        blocks: &'a Blocks,
        units: u64,
    ) -> impl Iterator<Item = Id> + 'a {
        let first = bin(units);
        let bins = std::iter::successors(Some(first), |&(coarse, fine)| self.next(coarse, fine));
        bins.flat_map(|(coarse, fine)| self.list(blocks, self.heads[coarse][fine]))
            .filter(move |&id| blocks[id].units() >= units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_size_never_has_a_lower_bin() {
        let sizes = (0..100_000u64).chain((17..36).map(|bit| 1 << bit));
        let bins: Vec<_> = sizes.map(bin).collect();
        assert!(bins.is_sorted());
        assert_eq!(bin(31), (0, 31));
        assert_eq!(bin(32), (1, 0));
        assert_eq!(bin(33), (1, 1));
    }
}
