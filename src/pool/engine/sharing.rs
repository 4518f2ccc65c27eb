//! Memory that others reach too: other devices, and other processes.

use super::device::{Engine, NotLive};
use super::span::Mapping;
use crate::cuda::{Card, CuResult, DevicePtr, Handle};

/// The physical memory behind a live block. It stays the same, in the same order, until the block is freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// Where the block begins, in bytes from the beginning of the first handle.
    pub offset: u64,
    /// Handles side by side, each with its bytes. Others' blocks may lie in the first and the last.
    pub handles: Vec<(Handle, u64)>,
}

impl<C: Card> Engine<C> {
    /// What lies behind the live block that begins at an address.
    ///
    /// # Errors
    /// If there is none.
    pub fn backing(&self, address: DevicePtr) -> Result<Backing, NotLive> {
        let home = self.streams.owner(address).ok_or(NotLive)?;
        let heap = home.lock();
        let id = heap.live(address).ok_or(NotLive)?;
        let end = heap.blocks[id].end();
        let mapping = |at: u64| {
            let alias = heap.aliases(id).find(|alias| alias.address <= at && at < alias.end());
            alias.or_else(|| heap.span.mapping(at))
        };
        let first = mapping(address).ok_or(NotLive)?;
        let run: Vec<Mapping> = std::iter::successors(Some(first), |last| {
            (last.end() < end).then(|| mapping(last.end())).flatten()
        })
        .collect();
        if run.last().is_none_or(|last| last.end() < end) {
            return Err(NotLive);
        }
        let handles = run.iter().map(|mapping| (mapping.handle, mapping.bytes)).collect();
        Ok(Backing { offset: address - first.address, handles })
    }

    /// Enables all that is mapped once more, since the card lets in one more device than before. What is mapped from now on is
    /// enabled for it anyway.
    ///
    /// # Errors
    /// What the driver says; a part is enabled for the new device then, which does no harm.
    pub fn enable_all(&self) -> Result<(), CuResult> {
        // Held so that nothing is mapped meanwhile by a thread that has not heard of the new device.
        let _pages = self.pages();
        for home in self.streams.all() {
            let heap = home.lock();
            let mut mappings = heap.span.all().peekable();
            while let Some(first) = mappings.next() {
                let mut end = first.end();
                while let Some(next) = mappings.next_if(|next| next.address == end) {
                    end = next.end();
                }
                self.card.enable(first.address, end - first.address)?;
            }
            for alias in heap.loans.keys().flat_map(|&id| heap.aliases(id)) {
                self.card.enable(alias.address, alias.bytes)?;
            }
        }
        Ok(())
    }
}
