//! Libraries and the program itself, as they were mapped when a frame of theirs was first seen. With it, a stack can be
//! named after the process is gone.

use std::sync::atomic::{
    AtomicU8, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use super::Books;

/// Modules that the books have room for.
pub const MODULES: usize = 512;
const PATH: usize = 488;

/// One module. A path too long for its slot keeps its end.
#[derive(Debug)]
#[repr(C)]
pub struct ModuleSlot {
    /// Load base; 0 while the slot is free, 1 while it is being written.
    base: AtomicU64,
    end: AtomicU64,
    length: AtomicU64,
    path: [AtomicU8; PATH],
}

/// A module, read from its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Load base.
    pub base: u64,
    /// First address after it.
    pub end: u64,
    /// Path of the file.
    pub path: String,
}

impl ModuleSlot {
    fn read(&self) -> Option<Module> {
        let base = self.base.load(Acquire);
        let length = (self.length.load(Relaxed) as usize).min(PATH);
        let path: Vec<u8> = self.path[..length].iter().map(|byte| byte.load(Relaxed)).collect();
        let end = self.end.load(Relaxed);
        (base > 1).then(|| Module { base, end, path: String::from_utf8_lossy(&path).into_owned() })
    }
}

impl Books {
    /// Every module in the books.
    pub fn modules(&self) -> Vec<Module> {
        self.modules.iter().filter_map(ModuleSlot::read).collect()
    }

    /// Whether a module in the books holds the address.
    pub fn knows_address(&self, address: u64) -> bool {
        let mut used = self.modules.iter().take_while(|slot| slot.base.load(Acquire) != 0);
        used.any(|slot| (slot.base.load(Relaxed)..slot.end.load(Relaxed)).contains(&address))
    }

    /// Whether there is no room for another module.
    pub fn is_full_of_modules(&self) -> bool {
        self.modules.last().is_some_and(|slot| slot.base.load(Relaxed) != 0)
    }

    /// Writes a module down. Without room, nothing happens: its frames stay bare addresses.
    pub fn add_module(&self, base: u64, end: u64, path: &[u8]) {
        let Some(slot) = self.modules.iter().find(|slot| {
            slot.base.load(Relaxed) == 0
                && slot.base.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
        }) else {
            return;
        };
        let path = &path[path.len().saturating_sub(PATH)..];
        for (to, from) in slot.path.iter().zip(path) {
            to.store(*from, Relaxed);
        }
        slot.length.store(path.len() as u64, Relaxed);
        slot.end.store(end, Relaxed);
        slot.base.store(base, Release);
    }
}
