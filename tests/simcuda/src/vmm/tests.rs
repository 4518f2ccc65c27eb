use super::*;
use crate::operation::Operation;
use crate::settings::Settings;
use crate::timeline::Role;
use crate::violation::in_this_thread;

const DEVICE: Location = Location { kind: Location::DEVICE, id: 0 };
const NUMA: Location = Location { kind: 3, id: 0 };

fn prop(location: Location) -> AllocationProp {
    let win32_meta = std::ptr::null_mut();
    AllocationProp { kind: 1, requested_handle_types: 0, location, win32_meta, flags: [0; 8] }
}

fn machine() -> (Sim, u64) {
    let mut sim = Sim::new(Settings::defaults()).unwrap();
    let base = sim.reserve(64 * PAGE, 0, 0).unwrap();
    (sim, base)
}

fn write_to(sim: &mut Sim, to: u64) -> Outcome {
    let context = sim.contexts.retain_primary(0);
    let stream = sim.timeline.default_stream(context, Role::Legacy);
    let kernel = Operation::Kernel { duration: 1000, to, len: 8, value: Some(1) };
    sim.execute(stream, kernel).map(drop)
}

#[test]
fn mappings_come_and_go_whole() {
    let (mut sim, base) = machine();
    let handle = sim.create_handle(4 * PAGE, prop(DEVICE)).unwrap();
    assert_eq!(sim.map(base, 2 * PAGE, 0, handle), Err(Code::NOT_SUPPORTED));
    assert_eq!(sim.map(base, 2 * PAGE, 2 * PAGE, handle), Err(Code::NOT_SUPPORTED));
    assert_eq!(sim.map(base, 8 * PAGE, 0, handle), Err(Code::INVALID_VALUE));
    assert_eq!(sim.map(base + 62 * PAGE, 4 * PAGE, 0, handle), Err(Code::INVALID_VALUE));
    assert_eq!(sim.map(base, 4 * PAGE, 0, handle), Ok(()));
    assert_eq!(sim.map(base + PAGE, 4 * PAGE, 0, handle), Err(Code::ALREADY_MAPPED));
    assert_eq!(sim.unmap(base, 2 * PAGE), Err(Code::INVALID_VALUE));
    assert_eq!(sim.unmap(base, 6 * PAGE), Err(Code::INVALID_VALUE));
    assert_eq!(sim.unreserve(base, 64 * PAGE), Err(Code::INVALID_VALUE));
    assert_eq!(sim.unmap(base, 4 * PAGE), Ok(()));
    assert_eq!(sim.unreserve(base, 63 * PAGE), Err(Code::INVALID_VALUE));
    assert_eq!(sim.unreserve(base, 64 * PAGE), Ok(()));
    assert_eq!(in_this_thread::take(), 0);
}

#[test]
fn one_call_unmaps_several_mappings() {
    let (mut sim, base) = machine();
    for i in 0..8 {
        let handle = sim.create_handle(PAGE, prop(DEVICE)).unwrap();
        sim.map(base + i * PAGE, PAGE, 0, handle).unwrap();
        sim.release_handle(handle).unwrap();
    }
    assert_eq!(sim.vmm.held_on(0), 8 * PAGE);
    assert_eq!(sim.unmap(base, 8 * PAGE), Ok(()));
    assert_eq!(sim.vmm.held_on(0), 0);
}

#[test]
fn access_is_needed_and_is_per_device() {
    let (mut sim, base) = machine();
    let handle = sim.create_handle(PAGE, prop(DEVICE)).unwrap();
    sim.map(base, PAGE, 0, handle).unwrap();
    assert_eq!(write_to(&mut sim, base), Err(Code::ILLEGAL_ADDRESS));
    assert_eq!(in_this_thread::take(), 1);
    let access = |flags| [AccessDesc { location: DEVICE, flags }];
    sim.set_access(base, PAGE, &access(1)).unwrap();
    assert_eq!(write_to(&mut sim, base), Err(Code::ILLEGAL_ADDRESS));
    sim.set_access(base, PAGE, &access(3)).unwrap();
    assert_eq!(write_to(&mut sim, base), Ok(()));
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn a_handle_seen_twice_is_one_memory_and_outlives_its_release() {
    let (mut sim, base) = machine();
    let handle = sim.create_handle(PAGE, prop(DEVICE)).unwrap();
    sim.map(base, PAGE, 0, handle).unwrap();
    sim.map(base + PAGE, PAGE, 0, handle).unwrap();
    sim.release_handle(handle).unwrap();
    sim.set_access(base, 2 * PAGE, &[AccessDesc { location: DEVICE, flags: 3 }]).unwrap();
    write_to(&mut sim, base).unwrap();
    sim.clock.advance(5000);
    sim.settle();
    assert!(sim.holds(&sim.look(base + PAGE, 8).unwrap(), 1));
    sim.unmap(base, PAGE).unwrap();
    assert_eq!((sim.vmm.held_on(0), sim.retain_handle(base + PAGE)), (PAGE, Ok(handle)));
    sim.release_handle(handle).unwrap();
    sim.unmap(base + PAGE, PAGE).unwrap();
    assert_eq!((sim.vmm.held_on(0), in_this_thread::take()), (0, 0));
    assert_eq!(sim.release_handle(handle), Err(Code::INVALID_VALUE));
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn unmapping_under_running_work_is_caught() {
    let (mut sim, base) = machine();
    let handle = sim.create_handle(PAGE, prop(DEVICE)).unwrap();
    sim.map(base, PAGE, 0, handle).unwrap();
    sim.set_access(base, PAGE, &[AccessDesc { location: DEVICE, flags: 3 }]).unwrap();
    write_to(&mut sim, base).unwrap();
    assert_eq!(sim.unmap(base, PAGE), Ok(()));
    assert_eq!(in_this_thread::take(), 1);
}

#[test]
fn only_device_memory_counts_against_the_card() {
    let (mut sim, _) = machine();
    assert_eq!(sim.create_handle(PAGE / 2, prop(DEVICE)), Err(Code::INVALID_VALUE));
    assert_eq!(sim.create_handle(81 << 30, prop(DEVICE)), Err(Code::OUT_OF_MEMORY));
    assert!(sim.create_handle(81 << 30, prop(NUMA)).is_ok());
    assert_eq!(sim.free_bytes(0), 80 << 30);
}
