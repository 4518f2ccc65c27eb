//! Physical memory and addresses of the card, as strict as the driver: what it would refuse, or punish later, is a violation.

use std::collections::BTreeMap;

use cenote::cuda::{CuResult, Handle};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const PAGE: u64 = 2 * MIB;

/// A part of physical memory: handle, and the bytes of it.
pub(crate) type Extent = (Handle, u64, u64);

#[derive(Debug)]
struct Physical {
    bytes: u64,
    is_released: bool,
    mappings: u32,
}

#[derive(Debug, Clone, Copy)]
struct Mapped {
    bytes: u64,
    handle: Handle,
    is_enabled: bool,
}

/// Sums that the engine's statistics must agree with; a handle counts until it is released.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) now: u64,
    pub(crate) peak: u64,
    pub(crate) created: u64,
    pub(crate) released: u64,
    pub(crate) handles: u64,
}

#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) capacity: u64,
    /// Bytes that nobody else can have: a released handle counts until it is mapped nowhere.
    pub(crate) used: u64,
    pub(crate) held: Held,
    /// Address ranges that were given out: base, bytes.
    pub(crate) spans: Vec<(u64, u64)>,
    handles: BTreeMap<Handle, Physical>,
    mapped: BTreeMap<u64, Mapped>,
    next_base: u64,
    next_handle: Handle,
    /// The first thing that the driver would not have let pass.
    pub(crate) violation: Option<String>,
}

impl Memory {
    pub(crate) fn new(capacity: u64) -> Self {
        Memory {
            capacity,
            used: 0,
            held: Held::default(),
            spans: vec![],
            handles: BTreeMap::new(),
            mapped: BTreeMap::new(),
            next_base: 1 << 40,
            next_handle: 1,
            violation: None,
        }
    }

    pub(crate) fn violate(&mut self, what: String) -> CuResult {
        self.violation.get_or_insert(what);
        CuResult::INVALID_VALUE
    }

    pub(crate) fn reserve(&mut self, bytes: u64, alignment: u64) -> Result<u64, CuResult> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || !alignment.is_power_of_two() {
            return Err(self.violate(format!("reserve of {bytes} bytes at {alignment}")));
        }
        let base = self.next_base.next_multiple_of(alignment);
        // A process has no more: the driver says so too.
        if base + bytes > 1 << 47 {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        self.next_base = base + bytes;
        self.spans.push((base, bytes));
        Ok(base)
    }

    pub(crate) fn create(&mut self, bytes: u64) -> Result<Handle, CuResult> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(self.violate(format!("create of {bytes} bytes")));
        }
        if self.used + bytes > self.capacity {
            return Err(CuResult::OUT_OF_MEMORY);
        }
        let handle = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(handle, Physical { bytes, is_released: false, mappings: 0 });
        self.used += bytes;
        let held = &mut self.held;
        held.now += bytes;
        held.created += bytes;
        held.handles += 1;
        held.peak = held.peak.max(held.now);
        Ok(handle)
    }

    pub(crate) fn map(&mut self, at: u64, bytes: u64, handle: Handle) -> Result<(), CuResult> {
        let fits = self.spans.iter().any(|&(base, all)| base <= at && at + bytes <= base + all);
        let over = self.mapped.range(..at + bytes).next_back();
        let over = over.filter(|(start, mapped)| *start + mapped.bytes > at);
        let physical = self.handles.get(&handle);
        let is_whole = physical.is_some_and(|p| !p.is_released && p.bytes == bytes);
        if !fits || !at.is_multiple_of(PAGE) || over.is_some() || !is_whole {
            let what = format!("map of {handle} {physical:?} at {at:#x}+{bytes:#x} over {over:x?}");
            return Err(self.violate(what));
        }
        if let Some(physical) = self.handles.get_mut(&handle) {
            physical.mappings += 1;
        }
        self.mapped.insert(at, Mapped { bytes, handle, is_enabled: false });
        Ok(())
    }

    /// The mappings that make up a range, if they do.
    fn whole(&self, at: u64, bytes: u64) -> Option<Vec<u64>> {
        let (mut next, mut starts) = (at, Vec::new());
        while next < at + bytes {
            starts.push(next);
            next += self.mapped.get(&next)?.bytes;
        }
        (next == at + bytes).then_some(starts)
    }

    pub(crate) fn enable(&mut self, at: u64, bytes: u64) -> Result<(), CuResult> {
        let Some(starts) = self.whole(at, bytes) else {
            return Err(self.violate(format!("enable of {at:#x}+{bytes:#x}, not mapped")));
        };
        for start in starts {
            self.mapped.entry(start).and_modify(|mapped| mapped.is_enabled = true);
        }
        Ok(())
    }

    pub(crate) fn unmap(&mut self, at: u64, bytes: u64) -> Result<(), CuResult> {
        let Some(starts) = self.whole(at, bytes) else {
            return Err(self.violate(format!("unmap of {at:#x}+{bytes:#x}: no whole mappings")));
        };
        for start in starts {
            let Some(Mapped { handle, .. }) = self.mapped.remove(&start) else { continue };
            if let Some(physical) = self.handles.get_mut(&handle) {
                physical.mappings -= 1;
            }
            self.forget(handle);
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, handle: Handle, bytes: u64) -> Result<(), CuResult> {
        match self.handles.get_mut(&handle) {
            Some(physical) if !physical.is_released && physical.bytes == bytes => {
                physical.is_released = true;
            }
            wrong => {
                let what = format!("release of {handle} with {bytes} bytes: {wrong:?}");
                return Err(self.violate(what));
            }
        }
        self.held.now -= bytes;
        self.held.released += bytes;
        self.forget(handle);
        Ok(())
    }

    /// Memory is free again when it is released and mapped nowhere.
    fn forget(&mut self, handle: Handle) {
        let gone = |physical: &&Physical| physical.is_released && physical.mappings == 0;
        if let Some(Physical { bytes, .. }) = self.handles.get(&handle).filter(gone) {
            self.used -= bytes;
            self.handles.remove(&handle);
        }
    }

    /// The physical memory of a range; none if some of it is not mapped or not enabled.
    pub(crate) fn extents(&self, begin: u64, end: u64) -> Option<Vec<Extent>> {
        let (mut at, mut extents) = (begin, Vec::new());
        while at < end {
            let (&start, mapped) = self.mapped.range(..=at).next_back()?;
            let until = end.min(start + mapped.bytes);
            if until <= at || !mapped.is_enabled {
                return None;
            }
            extents.push((mapped.handle, at - start, until - start));
            at = until;
        }
        Some(extents)
    }

    /// Which of the ranges that were given out holds an address.
    pub(crate) fn span(&self, address: u64) -> Option<usize> {
        self.spans.iter().position(|&(base, bytes)| (base..base + bytes).contains(&address))
    }

    /// Handles in the engine's hands, with their bytes.
    pub(crate) fn unreleased(&self) -> impl Iterator<Item = (Handle, u64)> + '_ {
        let ours = self.handles.iter().filter(|(_, physical)| !physical.is_released);
        ours.map(|(&handle, physical)| (handle, physical.bytes))
    }

    /// Handles that are mapped in a range.
    pub(crate) fn mapped_in(&self, base: u64, bytes: u64) -> impl Iterator<Item = Handle> + '_ {
        self.mapped.range(base..base + bytes).map(|(_, mapped)| mapped.handle)
    }
}
