use super::*;
use crate::operation::Operation;
use crate::settings::Settings;
use crate::timeline::Role;
use crate::violation::in_this_thread;

fn machine(devices: usize) -> Sim {
    Sim::new(Settings { devices, ..Settings::defaults() }).unwrap()
}

fn kernel(to: u64, len: u64) -> Operation {
    Operation::Kernel { duration: 1000, to, len, value: Some(9) }
}

#[test]
fn neighbours_have_their_own_identity() {
    let mut sim = machine(1);
    let context = sim.contexts.retain_primary(0);
    let [a, b] = [(); 2].map(|()| sim.allocate(context, 4096, Kind::Linear).unwrap());
    assert_eq!(b - a, 4096);
    assert_eq!(sim.memory.at(a + 4095).map(|found| found.base), Some(a));
    let buffer = sim.memory.at(b).unwrap().buffer;
    assert_ne!(sim.memory.at(a).unwrap().buffer, buffer);
    sim.free(b, "a test");
    assert_eq!(sim.allocate(context, 4096, Kind::Linear), Ok(b));
    assert_ne!(sim.memory.at(b).unwrap().buffer, buffer);
}

#[test]
fn only_bases_of_live_allocations_can_be_freed() {
    let mut sim = machine(1);
    let context = sim.contexts.retain_primary(0);
    let base = sim.allocate(context, 4096, Kind::Linear).unwrap();
    assert!(sim.freeable(base).is_ok());
    assert_eq!(sim.freeable(base + 512).err(), Some(Code::INVALID_VALUE));
    sim.free(base, "a test");
    assert_eq!(sim.freeable(base).err(), Some(Code::INVALID_VALUE));
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn work_outside_an_allocation_is_caught() {
    let mut sim = machine(1);
    let context = sim.contexts.retain_primary(0);
    let stream = sim.timeline.default_stream(context, Role::Legacy);
    let base = sim.allocate(context, 512, Kind::Linear).unwrap();
    assert!(sim.execute(stream, kernel(base, 512)).is_ok());
    assert_eq!(sim.execute(stream, kernel(base, 513)), Err(Code::ILLEGAL_ADDRESS));
    assert_eq!(in_this_thread::take(), 1);
    sim.free(base, "a test");
    assert_eq!(in_this_thread::take(), 1, "freed while in use");
}

#[test]
fn another_device_needs_peer_access() {
    let mut sim = machine(2);
    let [here, there] = [0, 1].map(|device| sim.contexts.retain_primary(device));
    let stream = sim.timeline.default_stream(here, Role::Legacy);
    let base = sim.allocate(there, 512, Kind::Linear).unwrap();
    assert_eq!(sim.execute(stream, kernel(base, 8)), Err(Code::ILLEGAL_ADDRESS));
    assert_eq!(in_this_thread::take(), 1);
    sim.contexts.enable_peer(here, there).unwrap();
    assert!(sim.execute(stream, kernel(base, 8)).is_ok());
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn a_context_takes_its_allocations_along() {
    let mut sim = machine(1);
    let context = sim.contexts.retain_primary(0);
    let base = sim.allocate(context, 5 << 20, Kind::Linear).unwrap();
    let first = sim.contexts.id_of(context).unwrap();
    sim.destroy_context(context);
    assert_eq!(sim.freeable(base).err(), Some(Code::INVALID_VALUE));
    assert_eq!(sim.contexts.id_of(context), Err(Code::CONTEXT_IS_DESTROYED));
    assert_eq!(sim.contexts.retain_primary(0), context);
    assert_ne!(sim.contexts.id_of(context), Ok(first));
    assert_eq!((sim.free_bytes(0), in_this_thread::take()), (80 << 30, 0));
}
