//! Host memory that the device may use: allocated here, registered, or behind managed memory.

use std::collections::BTreeMap;

use crate::code::{Code, Outcome};
use crate::mmap;
use crate::physical::{HostRange, ObjectId};
use crate::state::Sim;

/// A pinned range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) range: HostRange,
    pub(crate) object: ObjectId,
    pub(crate) buffer: u64,
    pub(crate) context: u64,
    /// False if the program brought the memory itself.
    ours: bool,
}

/// The pinned ranges of the process.
#[derive(Debug, Default)]
pub(crate) struct HostMemory {
    pinned: BTreeMap<u64, Pinned>,
}

impl HostMemory {
    /// The pinned range that an address lies in.
    pub(crate) fn at(&self, address: u64) -> Option<&Pinned> {
        let (_, found) = self.pinned.range(..=address).next_back()?;
        (address - found.range.base < found.range.len).then_some(found)
    }
}

impl Sim {
    /// Allocates pinned memory.
    pub(crate) fn allocate_host(&mut self, context: u64, size: usize) -> Outcome<u64> {
        if size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let base = mmap::map_anonymous(0, size, access).ok_or(Code::OUT_OF_MEMORY)?;
        self.pin(context, base, size as u64, true);
        Ok(base)
    }

    /// Ends pinned memory that was allocated here.
    pub(crate) fn free_host(&mut self, base: u64) -> Outcome {
        match self.host.pinned.get(&base) {
            Some(pinned) if pinned.ours => {
                let range = pinned.range;
                self.unpin(base);
                mmap::unmap(range.base, range.len as usize);
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Pins memory of the program.
    pub(crate) fn register_host(&mut self, context: u64, base: u64, size: usize) -> Outcome {
        if base == 0 || size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let last = base + size as u64 - 1;
        let overlaps =
            self.host.pinned.range(base..=last).next().is_some() || self.host.at(base).is_some();
        if overlaps {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.pin(context, base, size as u64, false);
        Ok(())
    }

    /// Ends a registration.
    pub(crate) fn unregister_host(&mut self, base: u64) -> Outcome {
        match self.host.pinned.get(&base) {
            Some(pinned) if !pinned.ours => {
                self.unpin(base);
                Ok(())
            }
            _ => Err(Code::HOST_MEMORY_NOT_REGISTERED),
        }
    }

    fn pin(&mut self, context: u64, base: u64, len: u64, ours: bool) {
        let range = HostRange { base, len };
        let object = self.physical.adopt_host(range);
        let buffer = self.memory.next_buffer();
        self.host.pinned.insert(base, Pinned { range, object, buffer, context, ours });
    }

    fn unpin(&mut self, base: u64) {
        if let Some(gone) = self.host.pinned.remove(&base) {
            self.physical.remove(gone.object);
        }
    }

    /// Makes a range of device addresses readable and writable for the host (managed memory).
    pub(crate) fn host_view(&mut self, base: u64, len: u64) -> Outcome<ObjectId> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        mmap::map_anonymous(base, len as usize, access).ok_or(Code::OUT_OF_MEMORY)?;
        Ok(self.physical.adopt_host(HostRange { base, len }))
    }

    /// Takes the host's view of a range away, and its bytes with it.
    pub(crate) fn hide_from_host(&mut self, base: u64, len: u64) {
        let _ = mmap::map_anonymous(base, len as usize, libc::PROT_NONE);
    }
}
