//! Any call of the driver may fail at any time: the code is passed on, and the books stay right.

mod harness;

use harness::Run;

// kvcached #364, #430: fault injection on the n-th call of each function that the pool uses. The program checks that no two
// live blocks share an address and that its bytes are its own; the harness, that the sums of the report hold.
#[test]
fn no_single_failure_breaks_the_books() {
    let calls = [
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuCtxRecordEvent",
        "cuEventCreate",
        "cuEventQuery",
        "cuCtxSynchronize",
    ];
    for call in calls {
        for nth in ["1", "2", "3", "7", "2-"] {
            for code in [2, 999] {
                let fault = format!("{call}:{nth}={code}");
                let outcome = Run::new("sweep").env("SIMCUDA_FAIL", &fault).run().ok();
                assert_eq!(outcome.pool().live_bytes, 0, "{fault}");
                if call != "cuMemAlloc_v2" {
                    assert_eq!(
                        outcome.value("failed"),
                        0,
                        "{fault}: the program's own calls are fine"
                    );
                }
            }
        }
    }
}

// What cenote asks for its own sake may fail for ever: the job does not notice.
#[test]
fn questions_of_our_own_may_all_fail() {
    let own = [
        "cuDeviceGetName",
        "cuDeviceGetUuid_v2",
        "cuDriverGetVersion",
        "cuMemGetInfo_v2",
        "cuDeviceTotalMem_v2",
    ];
    let faults = own.map(|name| format!("{name}:*=999")).join(",");
    let outcome = Run::new("sweep").env("SIMCUDA_FAIL", faults).run().ok();
    assert_eq!((outcome.value("failed"), outcome.pool().live_bytes), (0, 0));
}

// Without cuCtxGetId (a driver before 12.0) a context is known by its handle and what the hooks saw of its end.
#[test]
fn a_context_without_an_id_is_told_apart_all_the_same() {
    let run = Run::new("sweep").env("SIMCUDA_FAIL", "cuCtxGetId:*=1");
    assert_eq!(run.run().ok().value("failed"), 0);
}

// The first allocation fails once for want of memory and nothing is cached: one more try at most, then the driver's code.
#[test]
fn out_of_memory_of_the_driver_is_passed_on() {
    let outcome =
        Run::new("fill").args(["0", "1048576"]).env("SIMCUDA_FAIL", "cuMemAlloc_v2:*=2").run().ok();
    assert_eq!((outcome.value("code"), outcome.value("pointer")), (2, 0));
    assert!(outcome.calls("cuMemAlloc_v2") <= 4, "{} calls", outcome.calls("cuMemAlloc_v2"));
    assert_eq!(outcome.pool().out_of_memory, 1);
}

// The hit path has no slow driver call in it but those for a few spare blocks: 100 ms for each round would make 40 s.
#[test]
fn a_slow_driver_is_no_reason_to_wait_in_a_hit() {
    let run = Run::new("loop")
        .args(["200", "4194304"])
        .env("SIMCUDA_LATENCY", "cuMemAlloc_v2=100000,cuMemFree_v2=100000");
    let outcome = run.run().ok();
    assert!(
        outcome.elapsed.as_millis() < 3000,
        "{:?}: 200 rounds of 200 ms each without the pool",
        outcome.elapsed
    );
    // A block, and as many more as make 16 MiB.
    let calls = outcome.calls("cuMemAlloc_v2");
    assert!(calls <= 4, "{calls} calls");
}
