//! Memory between processes: handles, and files in `$SIMCUDA_SHARED` that carry the bytes.
//!
//! An exported allocation has a file named after the exporting process and the allocation. Its
//! presence says that the allocation lives, its size is the allocation's, and its mapped bytes
//! are the allocation's contents. A handle carries that name and a checksum; its last eight
//! bytes are zero and are not looked at, as with the driver (`facts/interposition.md` 3.6).

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::abi::IpcHandle;
use crate::code::{Code, Outcome};

const MAGIC: u64 = 0x6d69_7363_7564_6131;

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) process: u32,
    pub(crate) buffer: u64,
    pub(crate) device: i32,
    pub(crate) size: u64,
}

impl Ticket {
    pub(crate) fn to_handle(self) -> IpcHandle {
        let words = [MAGIC, u64::from(self.process), self.buffer, self.device as u64, self.size, 0];
        let mut bytes = [0u8; 64];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&bytes[..48]);
        bytes[48..56].copy_from_slice(&sum.to_le_bytes());
        IpcHandle(bytes)
    }

    /// Reads a handle; one with a changed byte before the last eight is an invalid value.
    pub(crate) fn from_handle(handle: &IpcHandle) -> Outcome<Ticket> {
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&handle.0[index * 8..index * 8 + 8]);
            u64::from_le_bytes(bytes)
        };
        if word(0) != MAGIC || word(6) != checksum(&handle.0[..48]) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Ticket {
            process: word(1) as u32,
            buffer: word(2),
            device: word(3) as i32,
            size: word(4),
        })
    }

    fn path(self, folder: &Path) -> PathBuf {
        folder.join(format!("simcuda-{}-{}.mem", self.process, self.buffer))
    }

    /// Makes the file, with room for the bytes that are kept.
    pub(crate) fn publish(self, folder: &Path, kept: u64) -> Outcome<SharedFile> {
        let path = self.path(folder);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path);
        let file = open.map_err(|_| Code::MAP_FAILED)?;
        file.set_len(kept).map_err(|_| Code::MAP_FAILED)?;
        SharedFile::map(&file, kept)
    }

    /// Maps the file of an allocation that another process exported and still holds.
    pub(crate) fn open(self, folder: &Path) -> Outcome<SharedFile> {
        if !self.is_alive(folder) {
            return Err(Code::INVALID_HANDLE);
        }
        let open = OpenOptions::new().read(true).write(true).open(self.path(folder));
        let file = open.map_err(|_| Code::INVALID_HANDLE)?;
        let kept = file.metadata().map_err(|_| Code::MAP_FAILED)?.len();
        SharedFile::map(&file, kept)
    }

    /// The file of memory that was exported, by whichever process, as long as its exporter holds it.
    pub(crate) fn file(self, folder: &Path) -> Outcome<File> {
        let open = OpenOptions::new().read(true).write(true).open(self.path(folder));
        open.map_err(|_| Code::INVALID_HANDLE)
    }

    /// Whether the exporter lives and has not freed the memory.
    pub(crate) fn is_alive(self, folder: &Path) -> bool {
        // SAFETY: signal 0 only asks whether the process exists.
        let process_lives = unsafe { libc::kill(self.process as i32, 0) } == 0;
        process_lives && self.path(folder).exists()
    }

    /// Says that the memory is gone; the importers' mappings stay valid on the host.
    pub(crate) fn withdraw(self, folder: &Path) {
        let _ = std::fs::remove_file(self.path(folder));
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The mapped bytes of an exported allocation.
///
/// # Invariants
/// 1. `base` is a shared mapping of `len` bytes that only `drop` unmaps.
#[derive(Debug)]
pub(crate) struct SharedFile {
    base: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to the value, and any thread may read, write and unmap it.
unsafe impl Send for SharedFile {}

impl SharedFile {
    pub(crate) fn map(file: &File, len: u64) -> Outcome<SharedFile> {
        let len = len as usize;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            Err(Code::MAP_FAILED)
        } else {
            Ok(SharedFile { base: base.cast(), len })
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: I1. Another process may write meanwhile, which is a race of the simulated
        // programs; bytes have no invalid values.
        unsafe { std::slice::from_raw_parts(self.base, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.len) }
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: I1, and no reference into the mapping outlives the value.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_eight_bytes_do_not_matter_and_the_others_do() {
        let ticket = Ticket { process: 7, buffer: 99, device: 1, size: 4096 };
        let handle = ticket.to_handle();
        assert_eq!(handle.0[56..], [0; 8]);
        for place in 0..64 {
            let mut other = handle;
            other.0[place] ^= 0x40;
            let answer = Ticket::from_handle(&other);
            assert_eq!(answer, if place < 56 { Err(Code::INVALID_VALUE) } else { Ok(ticket) });
        }
    }
}
