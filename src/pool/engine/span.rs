//! The address range of a heap, and which physical memory lies where in it.

use super::blocks::{Id, NONE};
use crate::cuda::{DevicePtr, Handle};

/// Physical memory comes in multiples of this.
pub(super) const PAGE: u64 = 2 << 20;

/// Physical memory at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) address: DevicePtr,
    pub(super) bytes: u64,
    pub(super) handle: Handle,
}

impl Mapping {
    pub(super) fn end(&self) -> u64 {
        self.address + self.bytes
    }
}

#[derive(Debug)]
pub(super) struct Span {
    pub(super) base: DevicePtr,
    pub(super) bytes: u64,
    mappings: Vec<Mapping>,
    spare: Vec<u32>,
    /// Bytes of the mappings.
    pub(super) mapped: u64,
    /// The mapping of each page, up to the highest that ever had one.
    pages: Vec<u32>,
    /// The block that begins in each stretch of `1 << shift` bytes; there is at most one live one.
    starts: Vec<Id>,
    shift: u32,
}

impl Span {
    /// A range whose live blocks have at least `1 << shift` bytes.
    pub(super) fn new(base: DevicePtr, bytes: u64, shift: u32) -> Self {
        Span {
            base,
            bytes,
            mappings: vec![],
            spare: vec![],
            mapped: 0,
            pages: vec![],
            starts: vec![],
            shift,
        }
    }

    fn page(&self, address: u64) -> usize {
        ((address - self.base) / PAGE) as usize
    }

    /// The mapping that holds an address.
    pub(super) fn mapping(&self, address: u64) -> Option<Mapping> {
        let index = *self.pages.get(self.page(address))?;
        self.mappings.get(index as usize).copied()
    }

    /// Mappings there are.
    pub(super) fn count(&self) -> u64 {
        (self.mappings.len() - self.spare.len()) as u64
    }

    pub(super) fn insert(&mut self, mapping: Mapping) {
        self.mapped += mapping.bytes;
        let index = self.spare.pop().unwrap_or_else(|| {
            self.mappings.push(mapping);
            (self.mappings.len() - 1) as u32
        });
        self.mappings[index as usize] = mapping;
        let (first, end) = (self.page(mapping.address), self.page(mapping.end()));
        if self.pages.len() < end {
            self.pages.resize(end, u32::MAX);
        }
        self.pages[first..end].fill(index);
    }

    pub(super) fn remove(&mut self, mapping: Mapping) {
        self.mapped -= mapping.bytes;
        let (first, end) = (self.page(mapping.address), self.page(mapping.end()));
        self.spare.push(self.pages[first]);
        self.pages[first..end].fill(u32::MAX);
    }

    /// Mappings that lie wholly within a range, by address.
    pub(super) fn within(&self, begin: u64, end: u64) -> impl Iterator<Item = Mapping> + '_ {
        let at = move |address: u64| (address < end).then(|| self.mapping(address)).flatten();
        let first = at(begin).and_then(|m| if m.address < begin { at(m.end()) } else { Some(m) });
        std::iter::successors(first, move |m| at(m.end())).take_while(move |m| m.end() <= end)
    }

    /// All mappings, by address.
    pub(super) fn all(&self) -> impl Iterator<Item = Mapping> + '_ {
        let of = |&index: &u32| self.mappings.get(index as usize).copied();
        let starts = self.pages.chunk_by(|one, next| one == next);
        starts.filter_map(move |pages| pages.first().and_then(of))
    }

    /// Bytes of a range that lie in mappings which reach out of it: they can't go anywhere else.
    pub(super) fn trapped(&self, begin: u64, end: u64) -> u64 {
        let reaches_out = |address: u64| {
            self.mapping(address).filter(|mapping| mapping.address < begin || mapping.end() > end)
        };
        if begin >= end {
            return 0;
        }
        let whole_begin = reaches_out(begin).map_or(begin, |mapping| mapping.end().min(end));
        let whole_end = reaches_out(end - 1).map_or(end, |mapping| mapping.address.max(begin));
        end - begin - whole_end.saturating_sub(whole_begin)
    }

    fn start(&self, address: u64) -> usize {
        ((address - self.base) >> self.shift) as usize
    }

    /// The block that was last said to begin near the address.
    pub(super) fn block(&self, address: u64) -> Id {
        self.starts.get(self.start(address)).copied().unwrap_or(NONE)
    }

    pub(super) fn set_block(&mut self, address: u64, id: Id) {
        let start = self.start(address);
        if self.starts.len() <= start {
            self.starts.resize((start + 1).next_power_of_two(), NONE);
        }
        self.starts[start] = id;
    }
}
