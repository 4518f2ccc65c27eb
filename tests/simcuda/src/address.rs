//! From addresses to memory: which bytes a context's work means, and whether it may touch them.

use crate::host::Pinned;
use crate::memory::{Allocation, Kind};
use crate::physical::{Extent, ObjectId};
use crate::state::Sim;
use crate::timeline::Touch;
use crate::vmm::{Handle, Mapping};

/// Why work may not touch an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NotAllocated,
    /// VMM memory without `cuMemSetAccess` for the device.
    NoAccess,
    /// Another device's memory without `cuCtxEnablePeerAccess`.
    NoPeerAccess,
    /// The process that exported the memory has freed it.
    FreedByExporter,
}

impl Fault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Fault::NotAllocated => "not allocated",
            Fault::NoAccess => "mapped without cuMemSetAccess for the device",
            Fault::NoPeerAccess => "memory of another device, without peer access",
            Fault::FreedByExporter => "imported memory that its exporter has freed",
        }
    }
}

/// What lies at an address.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Plain(&'a Allocation),
    Mapped(&'a Mapping, &'a Handle),
    Pinned(&'a Pinned),
}

impl Place<'_> {
    /// The object, the address it begins at, and its length.
    fn span(&self) -> (ObjectId, u64, u64) {
        match self {
            Place::Plain(found) => (found.object, found.base, found.size),
            Place::Mapped(mapping, handle) => (handle.object, mapping.base, mapping.size),
            Place::Pinned(pinned) => (pinned.object, pinned.range.base, pinned.range.len),
        }
    }
}

impl Sim {
    /// What work of `context` touches in `len` bytes at `address`, if it may.
    pub(crate) fn resolve(
        &self,
        context: u64,
        address: u64,
        len: u64,
        write: bool,
    ) -> Result<Vec<Touch>, (u64, Fault)> {
        self.walk(address, len, write, |place| self.permit(context, place, write))
    }

    /// The bytes at an address, for looking at them from outside the simulated machine.
    pub(crate) fn look(&self, address: u64, len: u64) -> Result<Vec<Touch>, (u64, Fault)> {
        self.walk(address, len, false, |_| Ok(()))
    }

    fn walk(
        &self,
        address: u64,
        len: u64,
        write: bool,
        permit: impl Fn(Place<'_>) -> Result<(), Fault>,
    ) -> Result<Vec<Touch>, (u64, Fault)> {
        let end = address.checked_add(len).ok_or((address, Fault::NotAllocated))?;
        let mut touches = Vec::new();
        let mut here = address;
        while here < end {
            let place = self.place(here).ok_or((here, Fault::NotAllocated))?;
            permit(place).map_err(|fault| (here, fault))?;
            let (object, base, size) = place.span();
            let extent = Extent { object, offset: here - base, len: end.min(base + size) - here };
            touches.push(Touch { extent, address: here, write });
            here += extent.len;
        }
        Ok(touches)
    }

    fn place(&self, address: u64) -> Option<Place<'_>> {
        if let Some(found) = self.memory.at(address) {
            return Some(Place::Plain(found));
        }
        match self.vmm.at(address) {
            Some(mapping) => Some(Place::Mapped(mapping, self.vmm.handle(mapping.handle)?)),
            None => self.host.at(address).map(Place::Pinned),
        }
    }

    fn permit(&self, context: u64, place: Place<'_>, write: bool) -> Result<(), Fault> {
        let device = self.contexts.device_of(context).map_err(|_| Fault::NotAllocated)?;
        match place {
            Place::Pinned(_) => Ok(()),
            Place::Mapped(mapping, _) => match mapping.access.get(&device) {
                Some(may_write) if *may_write || !write => Ok(()),
                _ => Err(Fault::NoAccess),
            },
            Place::Plain(found) => self.permit_plain(context, device, found),
        }
    }

    fn permit_plain(&self, context: u64, device: usize, found: &Allocation) -> Result<(), Fault> {
        if let (Kind::Imported { ticket, .. }, Some(folder)) = (found.kind, &self.settings.shared)
            && !ticket.is_alive(folder)
        {
            return Err(Fault::FreedByExporter);
        }
        let near = found.device == device || found.kind == Kind::Managed;
        if near || self.contexts.may_reach(context, found.context) {
            Ok(())
        } else {
            Err(Fault::NoPeerAccess)
        }
    }
}
