//! The frames of a report: each address once, with its module, and its symbol in the end.

use std::collections::HashMap;

use crate::ledger::{Books, Module};

use super::owner::{self, file_name};
use super::{Frame, symbols};

/// Modules that could be found in no module's range.
const NOWHERE: &str = "unknown";

/// The table under construction.
pub(super) struct Frames {
    /// Sorted by base.
    modules: Vec<Module>,
    /// The owner that each module's frames point to; none for plumbing.
    owners: Vec<Option<String>>,
    addresses: Vec<u64>,
    index: HashMap<u64, u32>,
}

impl Frames {
    /// An empty table over the modules in the books.
    pub(super) fn of(books: &Books, executable: &str) -> Self {
        let mut modules = books.modules();
        modules.sort_by_key(|module| module.base);
        let owner = |module: &Module| owner::owner_of_module(&module.path, executable);
        let owners = modules.iter().map(owner).collect();
        Frames { modules, owners, addresses: Vec::new(), index: HashMap::new() }
    }

    /// The owner of a stack; see [`owner`].
    pub(super) fn owner(&self, stack: &[u64]) -> String {
        let owner = |&address: &u64| self.owners.get(self.module(address)?)?.clone();
        stack.iter().find_map(owner).unwrap_or_else(|| owner::UNKNOWN.to_owned())
    }

    /// Indices for the frames of a stack.
    pub(super) fn stack(&mut self, stack: &[u64]) -> Vec<u32> {
        stack.iter().map(|&address| self.intern(address)).collect()
    }

    fn intern(&mut self, address: u64) -> u32 {
        *self.index.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            (self.addresses.len() - 1) as u32
        })
    }

    /// The module that holds a return address. The call is before it, and may be the last instruction of its module.
    fn module(&self, address: u64) -> Option<usize> {
        let call = address.checked_sub(1)?;
        let at = self.modules.partition_point(|module| module.base <= call).checked_sub(1)?;
        (call < self.modules[at].end).then_some(at)
    }

    /// The finished table. Modules whose file changed after `started_unix_ns` keep their symbols for themselves.
    pub(super) fn named(self, started_unix_ns: u64) -> Vec<Frame> {
        let mut by_module: HashMap<usize, Vec<(u64, usize)>> = HashMap::new();
        let mut frames = Vec::with_capacity(self.addresses.len());
        for (index, &address) in self.addresses.iter().enumerate() {
            let at = self.module(address);
            let base = at.map_or(0, |at| self.modules[at].base);
            if let Some(at) = at {
                by_module.entry(at).or_default().push((address - base, index));
            }
            frames.push(Frame {
                module: at.map_or(NOWHERE, |at| file_name(&self.modules[at].path)).to_owned(),
                offset: format!("{:#x}", address - base),
                symbol: None,
            });
        }
        for (at, mut offsets) in by_module {
            offsets.sort_unstable();
            let returns: Vec<u64> = offsets.iter().map(|&(offset, _)| offset).collect();
            let names = symbols::names(&self.modules[at].path, &returns, started_unix_ns);
            for ((_, index), name) in offsets.into_iter().zip(names) {
                frames[index].symbol = name;
            }
        }
        frames
    }
}
