//! Spare blocks for loops that free and allocate one size over and over.
//!
//! With one block in such a loop every allocation must ask whether the work before its free is done: an event and a query, most
//! of what a hit costs. With a few blocks one event answers for all of them. So a size that is asked about again and again
//! gets more blocks, as long as all of them together are small.

/// Questions about one size before it gets another block.
const PATIENCE: u32 = 64;
/// Bytes of spare blocks of one size.
const MOST_BYTES: u64 = 16 << 20;
/// Sizes above this get none.
const LARGEST: u64 = MOST_BYTES / 2;
const STEP: u64 = 2 << 20;

#[derive(Debug, Default, Clone, Copy)]
struct Spare {
    asked: u32,
    blocks: u64,
}

/// By size of whole blocks, in steps of 2 MiB.
#[derive(Debug, Default)]
pub(super) struct Spares([Spare; LARGEST.div_ceil(STEP) as usize]);

impl Spares {
    fn of(&mut self, bytes: u64) -> Option<&mut Spare> {
        self.0.get_mut(bytes.div_ceil(STEP).checked_sub(1)? as usize)
    }

    /// A block of the size was to be had only after asking the driver what is done.
    pub(super) fn asked(&mut self, bytes: u64) {
        if let Some(spare) = self.of(bytes) {
            spare.asked += 1;
        }
    }

    /// Whether it is time for another block. If so, the count starts anew, whether or not there is one to be had.
    pub(super) fn is_due(&mut self, bytes: u64) -> bool {
        let Some(spare) = self.of(bytes) else { return false };
        if spare.asked < PATIENCE || (spare.blocks + 1) * bytes > MOST_BYTES {
            return false;
        }
        spare.asked = 0;
        true
    }

    /// There is another block.
    pub(super) fn took(&mut self, bytes: u64) {
        if let Some(spare) = self.of(bytes) {
            spare.blocks += 1;
        }
    }

    /// A block of the size went back to the driver.
    pub(super) fn gave(&mut self, bytes: u64) {
        if let Some(spare) = self.of(bytes) {
            *spare = Spare { asked: 0, blocks: spare.blocks.saturating_sub(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_gets_sixteen_mebibytes_of_blocks_at_most() {
        for (bytes, most) in
            [(1 << 20, 16), (2 << 20, 8), (6 << 20, 2), (8 << 20, 2), (10 << 20, 0), (1 << 40, 0)]
        {
            let mut spares = Spares::default();
            let mut taken = 0;
            for _ in 0..10_000 {
                spares.asked(bytes);
                if spares.is_due(bytes) {
                    spares.took(bytes);
                    taken += 1;
                }
            }
            assert_eq!(taken, most, "{bytes}");
        }
    }

    #[test]
    fn a_size_that_is_seldom_asked_about_gets_none() {
        let mut spares = Spares::default();
        (0..PATIENCE - 1).for_each(|_| spares.asked(1 << 20));
        assert!(!spares.is_due(1 << 20));
        spares.gave(1 << 20);
        spares.asked(1 << 20);
        assert!(!spares.is_due(1 << 20));
    }
}
