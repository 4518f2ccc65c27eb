//! Exporting allocations to other processes, and importing theirs.

use crate::abi::IpcHandle;
use crate::code::{Code, Outcome};
use crate::heap::PAGE;
use crate::ipc::Ticket;
use crate::memory::{Allocation, Kind};
use crate::state::Sim;

impl Sim {
    /// Names the allocation that an address lies in; only plain memory can be exported.
    pub(crate) fn export(&mut self, address: u64) -> Outcome<Ticket> {
        let found = self.memory.at(address).filter(|found| found.kind == Kind::Linear);
        let found = *found.ok_or(Code::INVALID_VALUE)?;
        if let Some(ticket) = found.exported {
            return Ok(ticket);
        }
        let Allocation { buffer, size, device, .. } = found;
        let ticket = Ticket { process: std::process::id(), buffer, device: device as i32, size };
        if let Some(folder) = &self.settings.shared {
            let file = ticket.publish(folder, self.physical.kept(size))?;
            self.physical.share(found.object, file);
        }
        if let Some(found) = self.memory.starting_at_mut(found.base) {
            found.exported = Some(ticket);
        }
        Ok(ticket)
    }

    /// Maps another process's allocation; a context that has it already gets the same address.
    pub(crate) fn import(&mut self, context: u64, handle: &IpcHandle) -> Outcome<u64> {
        let ticket = Ticket::from_handle(handle)?;
        if ticket.process == std::process::id() {
            return Err(Code::INVALID_CONTEXT);
        }
        let folder = self.settings.shared.clone().ok_or(Code::INVALID_HANDLE)?;
        let file = ticket.open(&folder)?;
        if let Some(base) = self.reopen(context, ticket) {
            return Ok(base);
        }
        let device = self.contexts.device_of(context)?;
        let base = self.devices[device]
            .foreign
            .take(ticket.size.next_multiple_of(PAGE))
            .ok_or(Code::MAP_FAILED)?;
        let object = self.physical.adopt_shared(file);
        let buffer = self.memory.next_buffer();
        let kind = Kind::Imported { ticket, opened: 1 };
        let size = ticket.size;
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

    fn reopen(&mut self, context: u64, wanted: Ticket) -> Option<u64> {
        let same = |found: &&Allocation| {
            found.context == context
                && matches!(found.kind, Kind::Imported { ticket, .. } if ticket == wanted)
        };
        let base = self.memory.iter().find(same)?.base;
        if let Kind::Imported { opened, .. } = &mut self.memory.starting_at_mut(base)?.kind {
            *opened += 1;
        }
        Some(base)
    }

    /// Gives one reference to an imported allocation back.
    pub(crate) fn close_import(&mut self, base: u64) -> Outcome {
        match self.memory.starting_at_mut(base).map(|found| &mut found.kind) {
            Some(Kind::Imported { opened, .. }) => {
                *opened -= 1;
                if *opened == 0 {
                    self.free(base, "cuIpcCloseMemHandle");
                }
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
