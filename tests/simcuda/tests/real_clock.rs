//! With the real clock waits take real time, and a free holds up launches of other threads.

mod driver;
use driver::*;
use std::time::{Duration, Instant};

const KERNEL: Duration = Duration::from_millis(200);

fn time(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

#[test]
fn a_free_waits_and_stalls_launches_and_an_allocation_does_not() {
    set("SIMCUDA_CLOCK", "real");
    let context = start();
    let (mut busy, mut idle) = (0, 0);
    assert_eq!(cuStreamCreate(&mut busy, 1) + cuStreamCreate(&mut idle, 1), 0);
    let [used, other, scrap] = [(); 3].map(|()| alloc(4096));

    assert_eq!(simcuda_kernel(busy, KERNEL.as_micros() as u64, used, 4096, 1), 0);
    assert!(time(|| assert_ne!(alloc(512), 0)) < KERNEL / 2);
    assert!(time(|| assert_eq!(simcuda_kernel(idle, 0, other, 1, 1), 0)) < KERNEL / 2);

    let mut launch = Duration::ZERO;
    std::thread::scope(|scope| {
        let freeing = scope.spawn(|| time(|| assert_eq!(cuMemFree_v2(scrap), 0)));
        std::thread::sleep(KERNEL / 10);
        assert_eq!(cuCtxSetCurrent(context), 0);
        launch = time(|| assert_eq!(simcuda_kernel(idle, 0, other, 1, 2), 0));
        assert!(freeing.join().unwrap() > KERNEL / 2);
    });
    assert!(launch > KERNEL / 2, "{launch:?}");
    assert_eq!((simcuda_check(used, 4096, 1), simcuda_check(other, 1, 2)), (1, 1));
    assert_eq!(simcuda_violations(), 0);
}
