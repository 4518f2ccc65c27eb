//! Questions to a pool: where an address lies, what is wrong with a free, what the segments hold. And the marks that answers to
//! others leave behind: a block that a peer process was given.

use std::sync::atomic::Ordering::Relaxed;

use super::context::Pool;
use super::segment::{Segment, SlotState};
use super::state::State;
use crate::cuda::{DevicePtr, Driver};

/// Why a free was refused. Tags are what the caller gave with the last allocation and the last free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrongFree {
    /// No memory of this pool.
    Unknown,
    /// The block is free already.
    Twice {
        /// Tag of its allocation.
        allocated_by: u64,
        /// Tag of its free.
        freed_by: u64,
    },
    /// The address is not the start of a block.
    Interior {
        /// Start of the block, or of the segment.
        block: DevicePtr,
        /// Tag of its allocation.
        allocated_by: u64,
    },
}

/// Where an address lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Start of the slot.
    pub block: DevicePtr,
    /// Start of the segment: what the driver knows.
    pub segment: DevicePtr,
    /// Size of the segment.
    pub segment_bytes: u64,
    /// Size of the slot.
    pub block_bytes: u64,
    /// Size as requested by its owner.
    pub requested_bytes: u64,
    /// State of the slot.
    pub state: SlotState,
}

/// A segment, for reports.
#[derive(Debug, Clone)]
pub struct SegmentView {
    /// Address.
    pub address: DevicePtr,
    /// Size.
    pub bytes: u64,
    /// Size of the slots; none for a whole block.
    pub slot_bytes: Option<u64>,
    /// Live bytes as requested.
    pub live_bytes: u64,
    /// Bytes of waiting slots.
    pub waiting_bytes: u64,
    /// A peer process may have a slot open.
    pub exported: bool,
    /// Runs of slots in one state, in address order.
    pub runs: Vec<(SlotState, u32)>,
}

impl<D: Driver> Pool<D> {
    /// A peer process was given the block: it is never recycled afterwards.
    pub fn export(&self, address: DevicePtr) -> Option<Located> {
        let mut state = self.lock();
        let located = locate(&state, address)?;
        let segment = state.segments.get_mut(&located.segment)?;
        let (slot, _) = segment.slot_at(address)?;
        let slot = &mut segment.slots[slot as usize];
        if !std::mem::replace(&mut slot.exported, true) {
            self.book.exported_blocks.fetch_add(1, Relaxed);
        }
        state.withhold(located.segment);
        Some(located)
    }

    /// Where an address lies, if it is in memory of this pool.
    pub fn locate(&self, address: DevicePtr) -> Option<Located> {
        locate(&self.lock(), address)
    }

    /// What is wrong with the free of an address that the caller knows not to be a live block of its own; none if the address is
    /// not in memory of this pool. [`WrongFree::Unknown`] for a block that another thread frees at this moment.
    pub fn check_free(&self, address: DevicePtr) -> Option<WrongFree> {
        match find_live(&self.lock(), address) {
            Ok(_) => Some(WrongFree::Unknown),
            Err(WrongFree::Unknown) => None,
            Err(wrong) => Some(wrong),
        }
    }

    /// Bytes of segments in which nothing is live: the driver would get them back before any request is refused.
    pub fn reclaimable_bytes(&self) -> u64 {
        let state = self.lock();
        let unused = state.segments.values().filter(|s| s.count(SlotState::Live) == 0);
        unused.map(|segment| segment.bytes).sum()
    }

    /// The largest ready slot.
    pub fn largest_ready_bytes(&self) -> u64 {
        let state = self.lock();
        let with_room = state.segments.values().filter(|s| s.count(SlotState::Ready) > 0);
        with_room.map(|segment| segment.slot_bytes).max().unwrap_or(0)
    }

    /// Every segment, in address order. None if another thread stays in the pool for a second: at exit it may never leave.
    pub fn segments(&self) -> Option<Vec<SegmentView>> {
        for _ in 0..1000 {
            if let Ok(state) = self.state.try_lock() {
                return Some(state.segments.values().map(view).collect());
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        None
    }
}

pub(super) fn live_slots(segment: &Segment) -> impl Iterator<Item = (DevicePtr, u64)> + '_ {
    let slots = segment.slots.iter().enumerate();
    let live = slots.filter(|(_, slot)| slot.state == SlotState::Live);
    live.map(|(index, slot)| (segment.slot_address(index as u32), slot.requested))
}

/// The live slot that begins at an address.
pub(super) fn find_live(state: &State, address: DevicePtr) -> Result<(u64, u32), WrongFree> {
    let segment = state.segment_of(address).ok_or(WrongFree::Unknown)?;
    let Some((index, is_start)) = segment.slot_at(address) else {
        return Err(WrongFree::Interior { block: segment.address, allocated_by: 0 });
    };
    let slot = &segment.slots[index as usize];
    let (allocated_by, freed_by) = (slot.allocated_by, slot.freed_by);
    match slot.state {
        SlotState::Live if is_start => Ok((segment.address, index)),
        SlotState::Live => {
            Err(WrongFree::Interior { block: segment.slot_address(index), allocated_by })
        }
        _ => Err(WrongFree::Twice { allocated_by, freed_by }),
    }
}

fn locate(state: &State, address: DevicePtr) -> Option<Located> {
    let segment = state.segment_of(address)?;
    let (slot, _) = segment.slot_at(address)?;
    Some(Located {
        block: segment.slot_address(slot),
        segment: segment.address,
        segment_bytes: segment.bytes,
        block_bytes: segment.slot_bytes,
        requested_bytes: segment.slots[slot as usize].requested,
        state: segment.slots[slot as usize].state,
    })
}

fn view(segment: &Segment) -> SegmentView {
    let mut runs: Vec<(SlotState, u32)> = Vec::new();
    for slot in &segment.slots {
        match runs.last_mut() {
            Some((state, length)) if *state == slot.state => *length += 1,
            _ => runs.push((slot.state, 1)),
        }
    }
    SegmentView {
        address: segment.address,
        bytes: segment.bytes,
        slot_bytes: (!segment.is_whole()).then_some(segment.slot_bytes),
        live_bytes: live_slots(segment).map(|(_, bytes)| bytes).sum(),
        waiting_bytes: u64::from(segment.count(SlotState::Waiting)) * segment.slot_bytes,
        exported: segment.is_exported(),
        runs,
    }
}
