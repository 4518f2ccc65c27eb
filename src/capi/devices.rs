//! One engine for each device, made at first use.

use std::sync::atomic::AtomicU64;

use once_cell::sync::OnceCell;

use super::card::RealCard;
use super::life;
use super::pools::Pools;
use crate::conf::Settings;
use crate::cuda::CuResult;
use crate::pool::engine::{Engine, EngineSettings, Rules};
use crate::preload::shared;

/// Devices that a process may use.
pub(super) const MOST: usize = crate::ledger::MAX_DEVICES;

/// A device that memory was asked of.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) index: usize,
    /// Memory of the device, in bytes.
    pub(super) total: u64,
    pub(super) engine: Engine<RealCard>,
    pub(super) pools: Pools,
    /// Frees that named another size than the allocation.
    pub(super) size_mismatches: AtomicU64,
}

static DEVICES: [OnceCell<Device>; MOST] = [const { OnceCell::new() }; MOST];

/// The device of an ordinal.
///
/// # Errors
/// If there is none, or the driver can't be used.
#[inline]
pub(super) fn device(ordinal: i32) -> Result<&'static Device, CuResult> {
    match DEVICES.get(ordinal as usize).and_then(OnceCell::get) {
        Some(device) if !life::is_child() => Ok(device),
        _ => make(ordinal),
    }
}

#[cold]
fn make(ordinal: i32) -> Result<&'static Device, CuResult> {
    if life::driver_is_gone() {
        return Err(CuResult::DEINITIALIZED);
    }
    let index = usize::try_from(ordinal).map_err(|_| CuResult::INVALID_DEVICE)?;
    let cell = DEVICES.get(index).ok_or(CuResult::INVALID_DEVICE)?;
    cell.get_or_try_init(|| {
        let (card, total) = RealCard::new(index as u32)?;
        life::begin();
        let settings = shared::settings();
        let limit = limit(&settings, total);
        let engine = Engine::new(card, EngineSettings { total, limit, slack: settings.slack })
            .with_rules(Rules::of(&settings));
        Ok(Device {
            index,
            total,
            engine,
            pools: Pools::default(),
            size_mismatches: AtomicU64::new(0),
        })
    })
}

/// Bytes that the configuration allows on a device.
fn limit(settings: &Settings, total: u64) -> Option<u64> {
    let fraction = settings.per_process_memory_fraction.map(|share| (total as f64 * share) as u64);
    [settings.limit, fraction].into_iter().flatten().min()
}

/// The devices that memory was asked of.
pub(super) fn all() -> impl Iterator<Item = &'static Device> {
    let usable = !life::is_child();
    DEVICES.iter().filter_map(OnceCell::get).filter(move |_| usable)
}

/// The device of an ordinal, if memory was asked of it.
#[inline]
pub(super) fn device_if_used(ordinal: i32) -> Option<&'static Device> {
    // In a forked child any lock may be held.
    DEVICES.get(ordinal as usize).and_then(OnceCell::get).filter(|_| !life::is_child())
}
