//! VMM memory between processes, as file descriptors.
//!
//! The descriptor is one of a file in `$SIMCUDA_SHARED` that has the kept bytes and, at its end, the memory's ticket. The file's name
//! goes with the exporter's handle; descriptors and importers keep the file itself, as the driver's keep the memory.

use std::fs::File;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::Handle;
use crate::abi::IpcHandle;
use crate::code::{Code, Outcome};
use crate::ipc::{SharedFile, Ticket};
use crate::state::Sim;
use crate::violation::violation;

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
const FILE_DESCRIPTOR: u32 = 1;
const TICKET_BYTES: u64 = 64;

impl Handle {
    pub(super) fn is_imported(&self) -> bool {
        self.ticket.is_some_and(|ticket| ticket.process != std::process::id())
    }
}

impl Sim {
    /// Whether memory made for these kinds of handles can be exported.
    pub(super) fn may_be_exported(&self, kinds: u32) -> Outcome<bool> {
        match (kinds, &self.settings.shared) {
            (0, _) => Ok(false),
            (FILE_DESCRIPTOR, Some(_)) => Ok(true),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }

    /// A new descriptor, which is the caller's.
    pub(crate) fn export_handle(&mut self, handle: u64) -> Outcome<i32> {
        let folder = self.settings.shared.clone().ok_or(Code::NOT_SUPPORTED)?;
        let process = std::process::id();
        let fresh = self.memory.next_buffer();
        let Some(found) = self.vmm.handles.get_mut(&handle).filter(|found| found.references > 0)
        else {
            violation!("export of the VMM handle {handle:#x}, which is not held");
            return Err(Code::INVALID_VALUE);
        };
        if !found.exportable {
            return Err(Code::INVALID_VALUE);
        }
        if let Some(ticket) = found.ticket {
            return Ok(ticket.file(&folder)?.into_raw_fd());
        }
        let device = found.device.map_or(-1, |device| device as i32);
        let ticket = Ticket { process, buffer: fresh, device, size: found.size };
        found.ticket = Some(ticket);
        let (object, kept) = (found.object, self.physical.kept(found.size));
        self.physical.share(object, ticket.publish(&folder, kept)?);
        let file = ticket.file(&folder)?;
        file.write_all_at(&ticket.to_handle().0, kept).map_err(|_| Code::MAP_FAILED)?;
        Ok(file.into_raw_fd())
    }

    /// A handle of the memory that a descriptor stands for: the same as before, where there is one. The descriptor stays the caller's.
    pub(crate) fn import_handle(&mut self, descriptor: i32) -> Outcome<u64> {
        if descriptor < 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller says that it is open; if it is not, the copy fails and nothing else happens.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let file = borrowed.try_clone_to_owned().map_err(|_| Code::INVALID_VALUE)?;
        let (ticket, file) = read(file)?;
        let same = |(_, found): &(&u64, &mut Handle)| found.ticket == Some(ticket);
        if let Some((handle, found)) = self.vmm.handles.iter_mut().find(same) {
            found.references += 1;
            return Ok(*handle);
        }
        let device = match ticket.device {
            -1 => None,
            device => Some(self.device(device)?),
        };
        let handle = self.vmm.next_handle;
        self.vmm.next_handle += 1;
        let object = self.physical.adopt_shared(file);
        let (size, references, mappings, exportable) = (ticket.size, 1, 0, true);
        let ticket = Some(ticket);
        let found = Handle { object, size, device, references, mappings, exportable, ticket };
        self.vmm.handles.insert(handle, found);
        Ok(handle)
    }

    /// The name of exported memory goes with its exporter's handle.
    pub(super) fn withdraw(&self, gone: &Handle) {
        if let (Some(ticket), Some(folder), false) =
            (gone.ticket, &self.settings.shared, gone.is_imported())
        {
            ticket.withdraw(folder);
        }
    }
}

fn read(descriptor: OwnedFd) -> Outcome<(Ticket, SharedFile)> {
    let file = File::from(descriptor);
    let bytes = file.metadata().map_err(|_| Code::INVALID_VALUE)?.len();
    let kept = bytes.checked_sub(TICKET_BYTES).ok_or(Code::INVALID_VALUE)?;
    let mut handle = IpcHandle([0; TICKET_BYTES as usize]);
    file.read_exact_at(&mut handle.0, kept).map_err(|_| Code::INVALID_VALUE)?;
    Ok((Ticket::from_handle(&handle)?, SharedFile::map(&file, kept)?))
}
