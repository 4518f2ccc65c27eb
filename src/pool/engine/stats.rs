//! The numbers of a device, as the engine tells them.

/// A number, its peak, and what was ever added and taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Now.
    pub current: u64,
    /// The largest so far, or since the peaks were reset.
    pub peak: u64,
    /// Ever added.
    pub allocated: u64,
    /// Ever taken away.
    pub freed: u64,
}

impl Count {
    pub(super) fn add(&mut self, number: u64) {
        self.current += number;
        self.allocated += number;
        self.peak = self.peak.max(self.current);
    }

    pub(super) fn sub(&mut self, number: u64) {
        self.current -= number;
        self.freed += number;
    }

    /// The same, of which no more can ever have been there: what a lane did not look at may have made its peak too large.
    pub(super) fn at_most(self, bound: u64) -> Self {
        Count { peak: self.peak.min(bound).max(self.current), ..self }
    }
}

/// The numbers of one device. Bytes, except where another unit is named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of blocks in the program's hands.
    pub allocated_bytes: Count,
    /// Of them, what was asked for.
    pub requested_bytes: Count,
    /// Blocks in the program's hands.
    pub allocation: Count,
    /// Bytes that the driver counts for us.
    pub reserved_bytes: Count,
    /// Handles held: pieces of physical memory.
    pub handles: Count,
    /// Handles created.
    pub pages_created: u64,
    /// Handles that were taken from one address to another.
    pub pages_moved: u64,
    /// Bytes of them.
    pub moved_bytes: u64,
    /// Bytes given back to the driver since more was held than the configuration's threshold.
    pub collected_bytes: u64,
    /// Requests that no free block held.
    pub misses: u64,
    /// Requests that were refused at first and tried again after something was given back.
    pub alloc_retries: u64,
    /// Requests that were refused.
    pub ooms: u64,
    /// Of the blocks in the program's hands, those below 64 KiB, which lie apart.
    pub small: SmallStats,
}

/// The numbers of small blocks; what is not in them is of large ones, but for the peaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SmallStats {
    /// Bytes of blocks in the program's hands.
    pub allocated_bytes: Count,
    /// Of them, what was asked for.
    pub requested_bytes: Count,
    /// Blocks in the program's hands.
    pub allocation: Count,
    /// Peaks of bytes, requested bytes and number of the large blocks; the latter two of the moments when bytes were at a new peak. The
    /// same holds for the peaks above.
    pub large_peaks: [u64; 3],
}
