//! How large a slot a request gets.
//!
//! The driver takes multiples of 2 MiB above 1 MiB and packs exactly below (measured on an H200), so rounding large requests
//! to 2 MiB costs nothing. Slot sizes of slabs are 2 MiB divided by a whole number, so that a slab has no tail to speak of;
//! four numbers to a doubling keep the loss within a slot under a fifth.

/// Size of a slab.
pub const SLAB_BYTES: u64 = 2 << 20;
/// Requests below this are cut from slabs.
pub const SMALL_BYTES: u64 = 1 << 20;
/// Alignment that the driver gives and textures need.
const ALIGNMENT: u64 = 512;

/// The slot that a request gets, and the segment that such slots come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// Size as requested.
    pub(super) requested: u64,
    /// Size of the slot.
    pub(super) slot_bytes: u64,
    /// Slots of the segment: 1 for a whole block.
    pub(super) slots: u32,
}

impl Fit {
    /// The fit of a request of at least one byte.
    pub(super) fn of(requested: u64, slabs: bool) -> Fit {
        if slabs && requested < SMALL_BYTES {
            let slots = slots(requested);
            return Fit { requested, slot_bytes: slot_bytes(slots), slots };
        }
        let unit = if requested <= SMALL_BYTES { ALIGNMENT } else { SLAB_BYTES };
        // A size that can't be rounded up is one that no driver has.
        let slot_bytes = requested.checked_next_multiple_of(unit).unwrap_or(requested);
        Fit { requested, slot_bytes, slots: 1 }
    }

    /// The same request as a block of its own and no larger than it must be, for when there is no room for more.
    pub(super) fn exact(self) -> Fit {
        let slot_bytes = self.requested.checked_next_multiple_of(ALIGNMENT);
        Fit { slot_bytes: slot_bytes.unwrap_or(self.requested), slots: 1, ..self }
    }

    /// Size of the segment to take from the driver.
    pub(super) fn segment_bytes(self) -> u64 {
        if self.slots == 1 { self.slot_bytes } else { SLAB_BYTES }
    }
}

fn slot_bytes(slots: u32) -> u64 {
    SLAB_BYTES / u64::from(slots) / ALIGNMENT * ALIGNMENT
}

/// The largest allowed number of slots that hold the request: three leading bits, so 2 to 8, 10, 12, 14, 16, 20, 24...
fn slots(requested: u64) -> u32 {
    let most = (SLAB_BYTES / requested.next_multiple_of(ALIGNMENT)) as u32;
    let shift = most.ilog2().saturating_sub(2);
    most >> shift << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_small_size_fits_its_slot_at_little_loss() {
        for requested in 1..SMALL_BYTES {
            let fit = Fit::of(requested, true);
            assert!(fit.slot_bytes >= requested, "{fit:?}");
            assert!(fit.slot_bytes.is_multiple_of(512) && fit.slots >= 2, "{fit:?}");
            assert!(fit.slot_bytes * u64::from(fit.slots) <= SLAB_BYTES, "{fit:?}");
            let need = requested.next_multiple_of(512);
            assert!(fit.slot_bytes * 2 <= need * 3, "{fit:?}");
        }
    }

    #[test]
    fn large_sizes_follow_the_driver() {
        assert_eq!(Fit::of(1 << 20, true).slot_bytes, 1 << 20);
        assert_eq!(Fit::of((1 << 20) + 1, true).slot_bytes, 2 << 20);
        assert_eq!(Fit::of(4_000_000, true).slot_bytes, 4 << 20);
        assert_eq!(Fit::of(u64::MAX, true).slot_bytes, u64::MAX);
        assert_eq!(Fit::of(300, false), Fit { requested: 300, slot_bytes: 512, slots: 1 });
    }
}
