//! Memory as such: numbered objects with their bytes, apart from the addresses they are seen at.
//!
//! One plain allocation is one object; a VMM handle is one object that may be mapped twice or not
//! at all. Only the first `SIMCUDA_KEEP_BYTES` of an object have contents; beyond them writes are
//! dropped and checks succeed, so that 80 GiB of simulated memory cost nothing.

use std::collections::HashMap;

use crate::ipc::SharedFile;

/// Names an object; never used again.
pub(crate) type ObjectId = u64;

/// A range of bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) object: ObjectId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Extent {
    pub(crate) fn overlaps(&self, other: &Extent) -> bool {
        self.object == other.object
            && self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
    }
}

/// Host memory that the device may touch: pinned, registered or managed.
///
/// # Invariants
/// 1. The range is valid for reads and writes until the object is removed: established by the
///    allocation that made it, or by the program that registered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRange {
    pub(crate) base: u64,
    pub(crate) len: u64,
}

/// Where an object's bytes lie.
#[derive(Debug)]
enum Content {
    /// Not touched so far: all zero.
    Fresh,
    Private(Vec<u8>),
    Shared(SharedFile),
    Host(HostRange),
}

#[derive(Debug)]
struct Object {
    size: u64,
    content: Content,
}

/// All objects of the process.
#[derive(Debug)]
pub(crate) struct Physical {
    objects: HashMap<ObjectId, Object>,
    next: ObjectId,
    keep: u64,
}

impl Physical {
    pub(crate) fn new(keep: u64) -> Physical {
        Physical { objects: HashMap::new(), next: 1, keep }
    }

    /// A new object of zeros.
    pub(crate) fn create(&mut self, size: u64) -> ObjectId {
        self.insert(size, Content::Fresh)
    }

    /// A new object whose bytes are host memory.
    pub(crate) fn adopt_host(&mut self, range: HostRange) -> ObjectId {
        self.insert(range.len, Content::Host(range))
    }

    /// A new object whose bytes another process sees too.
    pub(crate) fn adopt_shared(&mut self, file: SharedFile) -> ObjectId {
        self.insert(file.bytes().len() as u64, Content::Shared(file))
    }

    fn insert(&mut self, size: u64, content: Content) -> ObjectId {
        let id = self.next;
        self.next += 1;
        self.objects.insert(id, Object { size, content });
        id
    }

    pub(crate) fn remove(&mut self, id: ObjectId) {
        self.objects.remove(&id);
    }

    /// The bytes of an object that are kept.
    pub(crate) fn kept(&self, size: u64) -> u64 {
        size.min(self.keep)
    }

    /// Moves an object's bytes into a file that another process can map.
    pub(crate) fn share(&mut self, id: ObjectId, mut file: SharedFile) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        if let Content::Private(bytes) = &object.content {
            let both = bytes.len().min(file.bytes().len());
            file.bytes_mut()[..both].copy_from_slice(&bytes[..both]);
        }
        object.content = Content::Shared(file);
    }

    /// Lets `change` alter the kept part of a range; it gets the part's place within the range.
    fn alter(&mut self, extent: Extent, change: impl FnOnce(&mut [u8])) {
        let keep = self.keep;
        let Some(object) = self.objects.get_mut(&extent.object) else { return };
        if matches!(object.content, Content::Fresh) {
            object.content = Content::Private(vec![0; object.size.min(keep) as usize]);
        }
        let bytes: &mut [u8] = match &mut object.content {
            Content::Fresh => return,
            Content::Private(bytes) => bytes,
            Content::Shared(file) => file.bytes_mut(),
            // SAFETY: HostRange I1; the simulator's lock makes this the only access of ours.
            Content::Host(range) => unsafe {
                std::slice::from_raw_parts_mut(range.base as *mut u8, range.len as usize)
            },
        };
        let start = bytes.len().min(extent.offset as usize);
        let end = bytes.len().min((extent.offset + extent.len) as usize);
        change(&mut bytes[start..end]);
    }

    /// Sets every kept byte of the range.
    pub(crate) fn fill(&mut self, extent: Extent, value: u8) {
        self.alter(extent, |bytes| bytes.fill(value));
    }

    /// Writes bytes at the start of the range.
    pub(crate) fn store(&mut self, extent: Extent, source: &[u8]) {
        self.alter(extent, |bytes| {
            let both = bytes.len().min(source.len());
            bytes[..both].copy_from_slice(&source[..both]);
        });
    }

    /// Reads the range; bytes that are not kept are missing at the end.
    pub(crate) fn load(&self, extent: Extent) -> Vec<u8> {
        let Some(object) = self.objects.get(&extent.object) else { return Vec::new() };
        let bytes: &[u8] = match &object.content {
            Content::Fresh => {
                let kept = object.size.min(self.keep).saturating_sub(extent.offset).min(extent.len);
                return vec![0; kept as usize];
            }
            Content::Private(bytes) => bytes,
            Content::Shared(file) => file.bytes(),
            // SAFETY: HostRange I1; the bytes are only read.
            Content::Host(range) => unsafe {
                std::slice::from_raw_parts(range.base as *const u8, range.len as usize)
            },
        };
        let start = bytes.len().min(extent.offset as usize);
        let end = bytes.len().min((extent.offset + extent.len) as usize);
        bytes[start..end].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_up_to_the_limit() {
        let mut physical = Physical::new(100);
        let object = physical.create(1000);
        let extent = Extent { object, offset: 90, len: 20 };
        assert_eq!(physical.load(extent), [0; 10]);
        physical.fill(extent, 7);
        assert_eq!(physical.load(extent), [7; 10]);
        physical.store(Extent { object, offset: 0, len: 2 }, &[1, 2]);
        assert_eq!(physical.load(Extent { object, offset: 0, len: 3 }), [1, 2, 0]);
    }
}
