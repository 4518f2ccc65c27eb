//! Plain allocations: what lies at which address, who owns it, and since when.
//!
//! Each allocation has its own base, size and buffer id, also where the driver packs several
//! into one page (`facts/interposition.md` 3.5).

use std::collections::BTreeMap;

use crate::code::{Code, Outcome};
use crate::heap::PAGE;
use crate::ipc::Ticket;
use crate::physical::ObjectId;
use crate::state::Sim;
use crate::violation::violation;

/// How the memory came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Linear,
    Managed,
    /// Stream-ordered memory of a pool.
    Pool,
    /// Memory that another process exported.
    Imported {
        ticket: Ticket,
        opened: u32,
    },
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) base: u64,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
    pub(crate) context: u64,
    pub(crate) device: usize,
    pub(crate) object: ObjectId,
    pub(crate) buffer: u64,
    /// Set once the memory has been exported.
    pub(crate) exported: Option<Ticket>,
}

/// The live allocations.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    live: BTreeMap<u64, Allocation>,
    buffers: u64,
}

impl Memory {
    /// The allocation that an address lies in.
    pub(crate) fn at(&self, address: u64) -> Option<&Allocation> {
        let (_, found) = self.live.range(..=address).next_back()?;
        (address - found.base < found.size).then_some(found)
    }

    pub(crate) fn starting_at(&self, base: u64) -> Option<&Allocation> {
        self.live.get(&base)
    }

    pub(crate) fn starting_at_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.live.get_mut(&base)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    /// A number that no buffer of the process has had.
    pub(crate) fn next_buffer(&mut self) -> u64 {
        self.buffers += 1;
        self.buffers
    }

    pub(crate) fn insert(&mut self, allocation: Allocation) {
        self.live.insert(allocation.base, allocation);
    }

    pub(crate) fn remove(&mut self, base: u64) -> Option<Allocation> {
        self.live.remove(&base)
    }
}

impl Sim {
    /// Allocates for a context.
    pub(crate) fn allocate(&mut self, context: u64, size: u64, kind: Kind) -> Outcome<u64> {
        if size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = self.contexts.device_of(context)?;
        let budget = self.free_bytes(device);
        let heap = &mut self.devices[device].heap;
        let taken = match kind {
            Kind::Managed => heap.take_pages(size, budget),
            _ => heap.take(size, budget),
        };
        let base = taken.ok_or(Code::OUT_OF_MEMORY)?;
        let object = match kind {
            Kind::Managed => self.host_view(base, size.next_multiple_of(PAGE))?,
            _ => self.physical.create(size),
        };
        let buffer = self.memory.next_buffer();
        self.memory.insert(Allocation {
            base,
            size,
            kind,
            context,
            device,
            object,
            buffer,
            exported: None,
        });
        Ok(base)
    }

    /// The allocation that a free of `base` would end; anything but a base is an invalid value.
    pub(crate) fn freeable(&self, base: u64) -> Outcome<Allocation> {
        match self.memory.starting_at(base) {
            Some(found) if !matches!(found.kind, Kind::Imported { .. }) => Ok(*found),
            _ => {
                if self.settings.strict_free {
                    violation!("free of {base:#x}, which is no live allocation");
                }
                Err(Code::INVALID_VALUE)
            }
        }
    }

    /// Ends an allocation at once. Work that still uses it is a violation.
    pub(crate) fn free(&mut self, base: u64, by: &str) {
        self.check_idle(base, by);
        if let Some(gone) = self.memory.remove(base) {
            self.retire(gone);
        }
    }

    /// Gives back what belongs to an allocation that is out of the books.
    pub(crate) fn retire(&mut self, gone: Allocation) {
        self.physical.remove(gone.object);
        if let (Some(ticket), Some(folder)) = (gone.exported, &self.settings.shared) {
            ticket.withdraw(folder);
        }
        self.give_back(gone.device, gone.base, gone.size, gone.kind);
    }

    /// Gives an address range back to the device's heap.
    fn give_back(&mut self, device: usize, base: u64, size: u64, kind: Kind) {
        let heap = &mut self.devices[device].heap;
        match kind {
            Kind::Managed => {
                heap.give_pages(base, size);
                self.hide_from_host(base, size.next_multiple_of(PAGE));
            }
            Kind::Imported { .. } => {
                self.devices[device].foreign.give(base, size.next_multiple_of(PAGE))
            }
            Kind::Linear | Kind::Pool => heap.give(base, size),
        }
    }

    /// Reports work that uses `base`'s allocation and has not ended.
    fn check_idle(&self, base: u64, by: &str) {
        if let Some(allocation) = self.memory.starting_at(base)
            && let Some(work) = self.timeline.user_of(base, allocation.size, self.now())
        {
            violation!("{by} of {base:#x} while {work} uses it");
        }
    }

    /// What `cuMemGetInfo` calls free.
    pub(crate) fn free_bytes(&self, device: usize) -> u64 {
        let contexts = self.contexts.count_on(device) as u64 * self.settings.context_bytes;
        let used = self.devices[device].heap.held() + self.vmm.held_on(device) + contexts;
        self.settings.capacity.saturating_sub(used)
    }
}

#[cfg(test)]
mod tests;
