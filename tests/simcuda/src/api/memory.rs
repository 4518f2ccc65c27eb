//! Plain device memory.

use crate::abi::{Out, OutAddress};
use crate::capture::Hazard;
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::memory::Kind;
use crate::state;

/// Rows of pitched memory begin at multiples of this.
const PITCH: usize = 512;

exports! {
    [Init] cuMemAlloc_v2 as "cuMemAlloc" 3020 (address: OutAddress, bytesize: usize) {
        allocate(address, bytesize, Kind::Linear, "cuMemAlloc")
    }

    [Init] cuMemAllocPitch_v2 as "cuMemAllocPitch" 3020 (
        address: OutAddress, pitch: Out<usize>, width: usize, height: usize, element: u32
    ) {
        if !matches!(element, 4 | 8 | 16) {
            return Err(Code::INVALID_VALUE);
        }
        pitch.required()?;
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::OUT_OF_MEMORY)?;
        let size = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        allocate(address, size, Kind::Linear, "cuMemAllocPitch")?;
        pitch.set(row)
    }

    [Init] cuMemAllocManaged as "cuMemAllocManaged" 6000 (
        address: OutAddress, bytesize: usize, flags: u32
    ) {
        if !matches!(flags, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        allocate(address, bytesize, Kind::Managed, "cuMemAllocManaged")
    }

    /// Waits for all work of the allocation's context, and holds up other threads' launches
    /// meanwhile (`facts/h200.md`, "What waits").
    [Init] cuMemFree_v2 as "cuMemFree" 3020 (address: u64) {
        if address == 0 {
            return Ok(());
        }
        let mut machine = state::lock()?;
        machine.respect_captures(Hazard::Unsafe, "cuMemFree")?;
        let context = machine.freeable(address)?.context;
        let idle = machine.timeline.context_idle_at(context, machine.now());
        machine.stall_launches(idle);
        let mut machine = machine.wait_until(idle)?;
        machine.freeable(address)?;
        machine.free(address, "cuMemFree");
        Ok(())
    }

    [Init] cuMemGetInfo_v2 as "cuMemGetInfo" 3020 (free: Out<usize>, total: Out<usize>) {
        let mut machine = state::lock()?;
        let context = machine.contexts.current()?;
        let device = machine.contexts.device_of(context)?;
        let scripted = machine.settings.free_script.get(machine.free_answers).copied();
        machine.free_answers += 1;
        free.set_if_wanted(scripted.unwrap_or_else(|| machine.free_bytes(device)) as usize);
        total.set_if_wanted(machine.settings.capacity as usize);
        Ok(())
    }
}

fn allocate(address: OutAddress, size: usize, kind: Kind, call: &str) -> Outcome {
    address.0.required()?;
    let mut machine = state::lock()?;
    let context = machine.contexts.current()?;
    machine.respect_captures(Hazard::Unsafe, call)?;
    address.0.set(machine.allocate(context, size as u64, kind)?)
}
