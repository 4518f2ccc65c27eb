//! What the model knows of the program: its live blocks, what it freed, and what the pool may never do with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cenote::pool::WrongFree;

use super::memory::{Held, Memory};

/// A block in the program's hands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) requested: u64,
    pub(crate) tag: u64,
    pub(crate) exported: bool,
    /// The allocation of the driver that it lies in.
    pub(crate) serial: u64,
}

/// A block that the program freed.
#[derive(Debug, Clone, Copy)]
struct Freed {
    requested: u64,
    allocated_by: u64,
    freed_by: u64,
    exported: bool,
    serial: u64,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) live: BTreeMap<u64, Live>,
    freed: BTreeMap<u64, Freed>,
    /// Taken out of the books during a capture, to be given back after it.
    pub(crate) owed: Vec<Held>,
    tag: u64,
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    /// Exported slots: serial of the allocation, address.
    pub(crate) exported: BTreeSet<(u64, u64)>,
    /// Small requests get segments of their own.
    pub(crate) slabs_stopped: bool,
    /// What is freed goes straight back to the driver.
    pub(crate) unpooled: bool,
}

impl World {
    pub(crate) fn next_tag(&mut self) -> u64 {
        self.tag += 1;
        self.tag
    }

    pub(crate) fn nth_live(&self, n: usize) -> Option<(u64, Live)> {
        let n = n % self.live.len().max(1);
        self.live.iter().nth(n).map(|(&address, &live)| (address, live))
    }

    pub(crate) fn nth_freed(&self, n: usize) -> Option<u64> {
        self.freed.keys().nth(n % self.freed.len().max(1)).copied()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.live.values().map(|live| live.requested).sum()
    }

    /// The live block that an address lies in.
    fn live_around(&self, address: u64) -> Option<(u64, Live)> {
        let (&start, &live) = self.live.range(..=address).next_back()?;
        (address - start < live.requested).then_some((start, live))
    }

    /// The pool handed a block out.
    pub(crate) fn hand_out(&mut self, address: u64, requested: u64, tag: u64, memory: &Memory) {
        let range = address..address + requested;
        let held = memory.around(address);
        let held = held.unwrap_or_else(|| panic!("{range:x?} is not the driver's memory"));
        assert!(range.end <= held.address + held.bytes, "{range:x?} is more than {held:x?}");
        assert!(!self.owed.contains(&held), "{range:x?} is to be given back");
        assert_eq!(address % 512, 0, "{address:#x} is not aligned");
        assert!(
            requested < 2 << 20 || address.is_multiple_of(2 << 20),
            "{address:#x} is not aligned"
        );
        let neighbour = self.live.range(..range.end).next_back();
        if let Some((&start, live)) = neighbour {
            assert!(start + live.requested <= range.start, "{range:x?} lies over {start:#x}");
        }
        for (start, freed) in overlapping(&self.freed, &range) {
            let withheld = freed.exported && freed.serial == held.serial;
            assert!(!withheld, "{range:x?} lies over {start:#x}, which was exported");
            self.freed.remove(&start);
        }
        let live = Live { requested, tag, exported: false, serial: held.serial };
        self.live.insert(address, live);
    }

    /// The program gives a block up; from now on it may be anybody's.
    pub(crate) fn give_up(&mut self, address: u64, freed_by: u64) -> Option<Live> {
        let live = self.live.remove(&address)?;
        let Live { requested, tag, exported, serial } = live;
        let exported = exported || self.unpooled;
        let freed = Freed { requested, allocated_by: tag, freed_by, exported, serial };
        self.freed.insert(address, freed);
        if self.freed.len() > 200 {
            let oldest = self.freed.iter().filter(|(_, freed)| !freed.exported);
            let oldest = oldest.min_by_key(|(_, freed)| freed.freed_by).map(|(&start, _)| start);
            oldest.map(|start| self.freed.remove(&start));
        }
        Some(live)
    }

    /// Forgets what lay in memory that went back.
    pub(crate) fn prune(&mut self, memory: &Memory) {
        let holds = |address, serial| memory.around(address).is_some_and(|h| h.serial == serial);
        self.freed.retain(|&address, freed| !freed.exported || holds(address, freed.serial));
    }

    /// Whether the pool's answer to a free that must be refused is a true one.
    pub(crate) fn judge(&self, address: u64, answer: WrongFree, memory: &Memory) {
        let held = memory.around(address).filter(|held| !self.owed.contains(held));
        let right = match (self.live_around(address), held, self.freed.get(&address)) {
            (Some((block, live)), ..) => {
                answer == WrongFree::Interior { block, allocated_by: live.tag }
            }
            (None, None, _) => answer == WrongFree::Unknown,
            (None, Some(held), Some(freed)) if held.serial == freed.serial => {
                let &Freed { allocated_by, freed_by, .. } = freed;
                answer == WrongFree::Twice { allocated_by, freed_by }
            }
            // Slack behind a block, a slot that nobody had, or one of which the model forgot the owner.
            (None, Some(_), _) => answer != WrongFree::Unknown,
        };
        assert!(right, "free of {address:#x}: {answer:x?}");
    }
}

fn overlapping(freed: &BTreeMap<u64, Freed>, range: &Range<u64>) -> Vec<(u64, Freed)> {
    let below = freed.range(..range.end);
    let over = below.filter(|(start, freed)| *start + freed.requested > range.start);
    over.map(|(&start, &freed)| (start, freed)).collect()
}
