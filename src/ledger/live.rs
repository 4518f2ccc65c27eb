//! Live blocks by address: the owner that a free is routed by.
//!
//! A wrapper round a concurrent map that lets no guard out: holding one while the map is touched again can deadlock, and
//! in a hook that would hang the job.

use std::hash::{BuildHasherDefault, Hasher};

use dashmap::DashMap;
use serde::{Deserialize, Serialize};

use super::SiteId;

/// How memory was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// Served by the pool.
    Pooled = 0,
    /// `cuMemAlloc` that went to the driver, and `cuMemAllocPitch`.
    Direct = 1,
    /// Stream-ordered.
    Async = 2,
    /// `cuMemCreate`; the address is the handle.
    Vmm = 3,
    /// `cuMemAllocManaged`.
    Managed = 4,
    /// Pinned host memory.
    Host = 5,
}

impl Kind {
    pub(super) fn from_index(index: u8) -> Kind {
        match index {
            0 => Kind::Pooled,
            2 => Kind::Async,
            3 => Kind::Vmm,
            4 => Kind::Managed,
            5 => Kind::Host,
            _ => Kind::Direct,
        }
    }
}

/// What is known about a live block.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Size as requested.
    pub bytes: u64,
    /// How it was got.
    pub kind: Kind,
    /// Device of the allocation; 0 for host memory.
    pub device: u32,
    /// Which of the process' pools it belongs to, for [`Kind::Pooled`]; its context otherwise.
    pub home: u64,
    /// Where it was allocated.
    pub site: SiteId,
    /// When, in milliseconds after the first CUDA call.
    pub at_ms: u32,
}

/// Addresses are multiples of 512: the low bits say nothing, so the word is multiplied and folded.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = (word >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// Live blocks by address.
#[derive(Debug, Default)]
pub struct LiveBlocks {
    map: DashMap<u64, Block, BuildHasherDefault<AddressHasher>>,
}

impl std::fmt::Debug for AddressHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AddressHasher")
    }
}

impl LiveBlocks {
    /// A block came. Returns the one that was thought to be there.
    pub fn insert(&self, address: u64, block: Block) -> Option<Block> {
        self.map.insert(address, block)
    }

    /// A block went; none for an address that is not the start of a live block.
    pub fn remove(&self, address: u64) -> Option<Block> {
        self.map.remove(&address).map(|(_, block)| block)
    }

    /// The block that starts at the address.
    pub fn get(&self, address: u64) -> Option<Block> {
        self.map.get(&address).map(|block| *block)
    }

    /// A copy of everything, for a report.
    pub fn all(&self) -> Vec<(u64, Block)> {
        self.map.iter().map(|entry| (*entry.key(), *entry.value())).collect()
    }

    /// Takes out and returns the blocks for which `gone` says so.
    pub fn drain(&self, gone: impl Fn(&Block) -> bool) -> Vec<(u64, Block)> {
        let mut drained = Vec::new();
        self.map.retain(|&address, block| {
            let out = gone(block);
            if out {
                drained.push((address, *block));
            }
            !out
        });
        drained
    }
}
