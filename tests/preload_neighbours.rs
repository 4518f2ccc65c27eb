//! Several processes on one card: each one's numbers come from its own books. Case C28.

mod harness;

use harness::{GIB, MIB, Run};

// vLLM #55827, #56830: differences of the card's free memory charge a neighbour's memory to this process, or go below zero.
// The card's answers are scripted: free memory rises by 7 GiB in the middle of the measurement, then falls.
#[test]
fn own_numbers_do_not_depend_on_the_neighbour() {
    let script =
        [82_940, 90_170, 20_000, 95_000, 1, 0].map(|mib: u64| (mib * MIB).to_string()).join(",");
    let run = Run::new("neighbour")
        .env("SIMCUDA_FREE_SCRIPT", script)
        .env("SIMCUDA_CAPACITY", (96 * GIB).to_string());
    let outcome = run.run().ok();
    assert_eq!(outcome.value("abort"), 0);
    let device = outcome.device(0);
    assert_eq!((device.pool.reserved_bytes, device.pool.live_bytes), (4 * GIB, 4 * GIB));
    assert_eq!(device.memory.by_kind.values().map(|live| live.bytes).sum::<u64>(), 4 * GIB);
    assert!(device.memory.unaccounted_bytes.unsigned_abs() <= 96 * GIB, "{:?}", device.memory);
}

// A share means a share of the total: six times 0.15 are six equal budgets, not 0.15, 0.1275, 0.108...
#[test]
fn six_processes_with_a_share_each_get_the_same() {
    let one = |script: u64| {
        let run =
            Run::new("shares").arg((16 * MIB).to_string()).conf("per_process_memory_fraction:0.15");
        let free = vec![script.to_string(); 80].join(",");
        run.env("SIMCUDA_FREE_SCRIPT", free)
            .env("SIMCUDA_CAPACITY", (4 * GIB).to_string())
            .run()
            .ok()
    };
    // As much was free when each started.
    let taken: Vec<_> =
        (0..6).map(|started| one(4 * GIB * (100 - 15 * started) / 100).value("taken")).collect();
    let share = (4.0 * GIB as f64 * 0.15) as u64;
    assert!(taken.iter().all(|&bytes| bytes == taken[0]), "{taken:?}");
    assert!(taken[0] <= share && share - taken[0] < 16 * MIB, "{taken:?} of {share}");
}

// HAMi-core #86, #260: a lock in shared memory, held by a process that was killed, hung all others.
#[test]
fn a_killed_neighbour_holds_nobody_up() {
    let first = Run::new("exit").arg("kill");
    let folder = first.clone();
    first.run().killed_by(libc::SIGKILL);
    let second = Run::new("loop").args(["50", "4194304"]).beside(&folder).run().ok();
    assert!(second.elapsed.as_secs() < 5);
    assert_eq!(second.value("driver_allocations"), 1);
}
