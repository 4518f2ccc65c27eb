//! What an address that the engine hands out must be. Costs more than the replay itself, so it is done on request.

use std::collections::BTreeMap;

use super::card::SimCard;
use super::outcome::ReplayError;
use crate::cuda::DevicePtr;

/// Every block is aligned to this.
const ALIGNMENT: u64 = 512;

/// The live blocks: their ends by their beginnings.
#[derive(Debug, Default)]
pub(super) struct Live {
    blocks: BTreeMap<u64, u64>,
}

impl Live {
    /// A block was handed out.
    ///
    /// # Errors
    /// If it shares a byte or an address with a live one, is not aligned, or has memory missing.
    pub(super) fn add(
        &mut self,
        card: &SimCard,
        event: u64,
        at: DevicePtr,
        bytes: u64,
    ) -> Result<(), ReplayError> {
        // A block of no bytes still has an address of its own.
        let end = at.saturating_add(bytes.max(1));
        let before = self.blocks.range(..end).next_back();
        if let Some((&begin, &last)) = before
            && last > at
        {
            let what = format!("{at:#x} to {end:#x} overlaps the live {begin:#x} to {last:#x}");
            return Err(ReplayError::Block { event, what });
        }
        if !at.is_multiple_of(ALIGNMENT) {
            return Err(ReplayError::Block { event, what: format!("{at:#x} is not aligned") });
        }
        if !card.is_usable(at, bytes.max(1)) {
            let what = format!("{at:#x} to {end:#x} is not mapped, or not enabled, as a whole");
            return Err(ReplayError::Block { event, what });
        }
        self.blocks.insert(at, end);
        Ok(())
    }

    /// A block was taken back.
    pub(super) fn remove(&mut self, at: DevicePtr) {
        self.blocks.remove(&at);
    }

    /// Whether all live blocks still have their memory.
    ///
    /// # Errors
    /// If one has not.
    pub(super) fn all_usable(&self, card: &SimCard, event: u64) -> Result<(), ReplayError> {
        let lost = self.blocks.iter().find(|&(&at, &end)| !card.is_usable(at, end - at));
        match lost {
            Some((at, end)) => {
                let what = format!("the live {at:#x} to {end:#x} has lost memory");
                Err(ReplayError::Block { event, what })
            }
            None => Ok(()),
        }
    }
}
