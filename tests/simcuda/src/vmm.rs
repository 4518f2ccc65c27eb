//! Virtual memory management: reservations, handles, mappings and access.
//!
//! Restrictions as measured (`facts/h200.md`): a mapping cannot be unmapped in part, a part of a
//! handle cannot be mapped, one handle can be mapped at two addresses, a handle released while
//! mapped keeps its memory until it is unmapped. None of these calls waits for work.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::abi::{AccessDesc, AllocationProp, Location};
use crate::code::{Code, Outcome};
use crate::heap::PAGE;
use crate::ipc::Ticket;
use crate::mmap;
use crate::physical::ObjectId;
use crate::state::Sim;
use crate::violation::violation;

/// A physical allocation made by `cuMemCreate`.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) object: ObjectId,
    size: u64,
    /// `None` for host memory, which no card pays for.
    pub(crate) device: Option<usize>,
    references: u32,
    mappings: u32,
    /// Whether it was made for export as a file descriptor.
    exportable: bool,
    /// Its name between processes, once it was exported, or from the import on.
    ticket: Option<Ticket>,
}

/// A handle seen at an address.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) base: u64,
    pub(crate) size: u64,
    pub(crate) handle: u64,
    pub(crate) buffer: u64,
    /// Devices that may read, and whether they may write.
    pub(crate) access: HashMap<usize, bool>,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Vmm {
    reservations: BTreeMap<u64, u64>,
    handles: BTreeMap<u64, Handle>,
    mappings: BTreeMap<u64, Mapping>,
    next_handle: u64,
    held: HashMap<usize, u64>,
}

impl Vmm {
    pub(crate) fn new() -> Vmm {
        let (reservations, handles, mappings, held) = Default::default();
        Vmm { reservations, handles, mappings, next_handle: 0x5649_0000_0001, held }
    }

    /// The mapping that an address lies in.
    pub(crate) fn at(&self, address: u64) -> Option<&Mapping> {
        let (_, found) = self.mappings.range(..=address).next_back()?;
        (address - found.base < found.size).then_some(found)
    }

    /// The handle behind a mapping.
    pub(crate) fn handle(&self, handle: u64) -> Option<&Handle> {
        self.handles.get(&handle)
    }

    /// The bytes that handles take of a card.
    pub(crate) fn held_on(&self, device: usize) -> u64 {
        self.held.get(&device).copied().unwrap_or(0)
    }

    /// The bases of the mappings that make up the range exactly.
    fn exactly(&self, base: u64, size: u64) -> Outcome<Vec<u64>> {
        let end = base.checked_add(size).filter(|_| size > 0).ok_or(Code::INVALID_VALUE)?;
        let mut covered = base;
        let mut bases = Vec::new();
        for mapping in self.mappings.range(base..end).map(|(_, mapping)| mapping) {
            if mapping.base != covered {
                return Err(Code::INVALID_VALUE);
            }
            covered += mapping.size;
            bases.push(mapping.base);
        }
        if covered == end { Ok(bases) } else { Err(Code::INVALID_VALUE) }
    }

    /// Whether the range lies in one reservation.
    fn is_reserved(&self, base: u64, size: u64) -> bool {
        let found = self.reservations.range(..=base).next_back();
        found.is_some_and(|(start, len)| {
            base.checked_add(size).is_some_and(|end| end <= start + len)
        })
    }

    /// Takes a handle out that nobody refers to.
    fn drop_if_unused(&mut self, handle: u64) -> Option<Handle> {
        let unused =
            self.handles.get(&handle).is_some_and(|h| h.references == 0 && h.mappings == 0);
        let gone = if unused { self.handles.remove(&handle) } else { None }?;
        if !gone.is_imported()
            && let Some(held) = gone.device.and_then(|device| self.held.get_mut(&device))
        {
            *held -= gone.size;
        }
        Some(gone)
    }
}

impl Sim {
    pub(crate) fn reserve(&mut self, size: u64, alignment: u64, hint: u64) -> Outcome<u64> {
        let alignment = alignment.max(PAGE);
        if size == 0 || !size.is_multiple_of(PAGE) || !alignment.is_power_of_two() {
            return Err(Code::INVALID_VALUE);
        }
        if hint != 0 {
            // The hint is a wish in the driver too; it is kept where the host has room.
            let taken = self
                .vmm
                .reservations
                .iter()
                .any(|(base, len)| hint < base + len && *base < hint + size);
            if !taken && hint.is_multiple_of(alignment) && mmap::reserve_at(hint, size) {
                self.vmm.reservations.insert(hint, size);
                return Ok(hint);
            }
        }
        let base = mmap::reserve_aligned(size, alignment).ok_or(Code::OUT_OF_MEMORY)?;
        self.vmm.reservations.insert(base, size);
        Ok(base)
    }

    pub(crate) fn unreserve(&mut self, base: u64, size: u64) -> Outcome {
        let mapped = self.vmm.mappings.range(base..base.saturating_add(size)).next().is_some();
        if mapped || self.vmm.reservations.get(&base) != Some(&size) {
            return Err(Code::INVALID_VALUE);
        }
        self.vmm.reservations.remove(&base);
        mmap::unmap(base, size as usize);
        Ok(())
    }

    pub(crate) fn create_handle(&mut self, size: u64, prop: AllocationProp) -> Outcome<u64> {
        if size == 0 || !size.is_multiple_of(PAGE) || prop.kind != 1 {
            return Err(Code::INVALID_VALUE);
        }
        let exportable = self.may_be_exported(prop.requested_handle_types)?;
        let device = self.location_device(prop.location)?;
        if let Some(device) = device
            && size > self.free_bytes(device)
        {
            return Err(Code::OUT_OF_MEMORY);
        }
        if let Some(device) = device {
            *self.vmm.held.entry(device).or_default() += size;
        }
        let object = self.physical.create(size);
        let handle = self.vmm.next_handle;
        self.vmm.next_handle += 1;
        let (references, mappings, ticket) = (1, 0, None);
        let made = Handle { object, size, device, references, mappings, exportable, ticket };
        self.vmm.handles.insert(handle, made);
        Ok(handle)
    }

    /// The device that a location names; `None` for the host.
    pub(crate) fn location_device(&self, location: Location) -> Outcome<Option<usize>> {
        match location.kind {
            Location::DEVICE => match usize::try_from(location.id) {
                Ok(device) if device < self.devices.len() => Ok(Some(device)),
                _ => Err(Code::INVALID_DEVICE),
            },
            kind if Location::HOST_KINDS.contains(&kind) => Ok(None),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub(crate) fn release_handle(&mut self, handle: u64) -> Outcome {
        match self.vmm.handles.get_mut(&handle).filter(|found| found.references > 0) {
            None => {
                violation!("release of the VMM handle {handle:#x}, which is not held");
                Err(Code::INVALID_VALUE)
            }
            Some(found) => {
                found.references -= 1;
                self.drop_handle_if_unused(handle);
                Ok(())
            }
        }
    }

    fn drop_handle_if_unused(&mut self, handle: u64) {
        if let Some(gone) = self.vmm.drop_if_unused(handle) {
            self.physical.remove(gone.object);
            self.withdraw(&gone);
        }
    }

    pub(crate) fn retain_handle(&mut self, address: u64) -> Outcome<u64> {
        let handle = self.vmm.at(address).ok_or(Code::INVALID_VALUE)?.handle;
        let found = self.vmm.handles.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        found.references += 1;
        Ok(handle)
    }

    pub(crate) fn map(&mut self, base: u64, size: u64, offset: u64, handle: u64) -> Outcome {
        let whole = match self.vmm.handles.get(&handle) {
            Some(found) if found.references > 0 => found.size,
            _ => {
                violation!("map of the VMM handle {handle:#x}, which is not held");
                return Err(Code::INVALID_VALUE);
            }
        };
        let aligned = [base, size, offset].iter().all(|value| value.is_multiple_of(PAGE));
        if !aligned || size == 0 || offset.checked_add(size).is_none_or(|end| end > whole) {
            return Err(Code::INVALID_VALUE);
        }
        if size != whole {
            return Err(Code::NOT_SUPPORTED);
        }
        if !self.vmm.is_reserved(base, size) {
            return Err(Code::INVALID_VALUE);
        }
        let taken = self.vmm.at(base).is_some()
            || self.vmm.mappings.range(base..base + size).next().is_some();
        if taken {
            return Err(Code::ALREADY_MAPPED);
        }
        if let Some(found) = self.vmm.handles.get_mut(&handle) {
            found.mappings += 1;
        }
        let buffer = self.memory.next_buffer();
        self.vmm
            .mappings
            .insert(base, Mapping { base, size, handle, buffer, access: HashMap::new() });
        Ok(())
    }

    pub(crate) fn unmap(&mut self, base: u64, size: u64) -> Outcome {
        let bases = self.vmm.exactly(base, size)?;
        if let Some(work) = self.timeline.user_of(base, size, self.now()) {
            violation!("unmap of {base:#x}+{size:#x} while {work} uses it");
        }
        let gone: Vec<Mapping> =
            bases.iter().filter_map(|base| self.vmm.mappings.remove(base)).collect();
        for handle in gone.iter().map(|mapping| mapping.handle) {
            if let Some(found) = self.vmm.handles.get_mut(&handle) {
                found.mappings -= 1;
            }
            self.drop_handle_if_unused(handle);
        }
        Ok(())
    }

    pub(crate) fn set_access(&mut self, base: u64, size: u64, wishes: &[AccessDesc]) -> Outcome {
        let bases = self.vmm.exactly(base, size)?;
        let mut devices = Vec::new();
        let mut seen = BTreeSet::new();
        for wish in wishes {
            // Access for the host is accepted and changes nothing: the host never touches it here.
            if let Some(device) = self.location_device(wish.location)? {
                if !seen.insert(device) || !matches!(wish.flags, 0 | 1 | 3) {
                    return Err(Code::INVALID_VALUE);
                }
                devices.push((device, wish.flags));
            }
        }
        for base in bases {
            let Some(mapping) = self.vmm.mappings.get_mut(&base) else { continue };
            for (device, flags) in &devices {
                if *flags == 0 {
                    mapping.access.remove(device);
                } else {
                    mapping.access.insert(*device, *flags == 3);
                }
            }
        }
        Ok(())
    }
}

mod shareable;
#[cfg(test)]
mod tests;
