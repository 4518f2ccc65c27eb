//! The pool under a real process: what reaches the driver, and when a block may have a new owner.

mod harness;

use harness::{GIB, MIB, Run};

// rapidsai/rmm #1655: a program that allocates and frees in a loop.
#[test]
fn a_loop_hits_from_its_second_round_on() {
    let outcome = Run::new("loop").args(["100", "67108864"]).run().ok();
    assert_eq!(outcome.value("driver_allocations"), 1);
    assert_eq!(outcome.value("driver_frees"), 0);
    let pool = outcome.pool();
    assert_eq!((pool.allocations, pool.frees, pool.hits), (100, 100, 99));
    assert_eq!((pool.live_bytes, pool.peak_live_bytes), (0, 64 * MIB));
    assert_eq!(pool.peak_reserved_bytes, 64 * MIB);
}

#[test]
fn small_blocks_share_a_slab() {
    let outcome = Run::new("loop").args(["1000", "512"]).run().ok();
    assert_eq!(outcome.value("driver_allocations"), 1);
    assert_eq!(outcome.pool().peak_reserved_bytes, 2 * MIB);
}

// kokkos #9307, vLLM #43020, NVIDIA/cub #156: reuse before the kernel has ended. The driver checks that work of two streams
// on the same bytes does not overlap in time; a pool that reuses at once fails here in the first round.
#[test]
fn a_block_reaches_another_stream_only_after_the_work_on_it() {
    for bytes in ["512", "65536", "4194304"] {
        let outcome = Run::new("two_streams").args(["8", bytes]).run().ok();
        assert_eq!(outcome.value("wrong"), 0, "{bytes} bytes");
        // Nobody waited either: with 20 ms of work on the first block the second is another one.
        assert_eq!(outcome.value("same"), 0, "{bytes} bytes");
    }
}

// The same where the driver has no context event: the free waits, as the driver's own does.
#[test]
fn an_old_driver_synchronises_at_free() {
    let outcome = Run::new("two_streams").args(["8", "4194304"]).old_driver().run().ok();
    assert_eq!(outcome.value("wrong"), 0);
    assert_eq!(outcome.report().coverage.order, "synchronise");
    assert!(outcome.report().coverage.missing.iter().all(|name| outcome.calls(name) == 0));
    let outcome = Run::new("free_barrier").old_driver().run().ok();
    assert_eq!(outcome.value("event"), 0, "the work in flight was done when the free returned");
}

#[test]
fn a_new_driver_orders_by_context_events() {
    let outcome = Run::new("two_streams").run().ok();
    assert_eq!(outcome.report().coverage.order, "context_event");
    assert!(outcome.pool().events_recorded > 0);
}

// A driver that has the context event and refuses it, once or always: the work is waited for instead.
#[test]
fn a_refused_context_event_is_no_licence_to_reuse() {
    for fault in ["cuCtxRecordEvent:2=801", "cuCtxRecordEvent:*=801", "cuEventCreate:*=2"] {
        let outcome = Run::new("two_streams").env("SIMCUDA_FAIL", fault).run().ok();
        assert_eq!(outcome.value("wrong"), 0, "{fault}");
    }
}

// Work that never ends before the next request: without a bound on waiting bytes the card fills after 16 rounds.
#[test]
fn ten_thousand_rounds_without_a_wait_do_not_fill_the_card() {
    let run = Run::new("flood")
        .args(["10000", "67108864", "100"])
        .env("SIMCUDA_CAPACITY", GIB.to_string());
    let outcome = run.run().ok();
    assert_eq!(outcome.value("rounds"), 10000);
    assert_eq!(outcome.pool().out_of_memory, 0);
    assert!(outcome.pool().peak_reserved_bytes <= GIB);
}

// The bytes that wait are bounded by about the peak of live bytes: taking more memory is no answer to a busy device.
#[test]
fn waiting_blocks_are_bounded_also_on_a_large_card() {
    let outcome = Run::new("flood").args(["2000", "67108864", "100"]).run().ok();
    let pool = outcome.pool();
    assert!(
        pool.peak_reserved_bytes <= GIB,
        "{} bytes reserved for 64 MiB live",
        pool.peak_reserved_bytes
    );
}

// Many open events: small frees without a wait may not need an event each.
#[test]
fn many_small_frees_without_a_wait_stay_bounded() {
    let outcome = Run::new("flood").args(["20000", "4096", "50"]).run().ok();
    assert!(outcome.pool().peak_reserved_bytes <= 256 * MIB, "{:?}", outcome.pool());
}

#[test]
fn a_free_is_a_barrier_when_asked_for() {
    let outcome = Run::new("free_barrier").conf("free_barrier:true").run().ok();
    assert_eq!(outcome.value("event"), 0);
    let outcome = Run::new("free_barrier").run().ok();
    assert_eq!(
        outcome.value("event"),
        600,
        "not ready: without the setting the free does not wait"
    );
}

// torch_memory_saver #82 (6912 bytes), onnxruntime #12289 (textures need 512): every size, aligned, apart. Case C24.
#[test]
fn every_size_is_aligned_and_apart() {
    assert_eq!(Run::new("sizes").run().ok().value("done"), 1);
    assert_eq!(Run::new("sizes").conf("slabs:false").run().ok().value("done"), 1);
    assert_eq!(Run::new("sizes").old_driver().run().ok().value("done"), 1);
}

// UCX #4540, #2755, #2738: a registration cache compares address and buffer id; a cached block keeps both, rightly.
#[test]
fn a_cached_block_keeps_its_buffer_id() {
    let outcome = Run::new("buffer_id").run().ok();
    assert_eq!((outcome.value("same_address"), outcome.value("same_id")), (1, 1));
}

#[test]
fn observe_and_off_leave_every_call_to_the_driver() {
    let outcome = Run::new("loop").args(["10"]).conf("mode:observe").run().ok();
    assert_eq!((outcome.value("driver_allocations"), outcome.value("driver_frees")), (10, 10));
    assert_eq!((outcome.pool().reserved_bytes, outcome.pool().hits), (0, 0));
    assert_eq!(outcome.device(0).memory.peak_live_bytes, 64 * MIB);
    assert_eq!(outcome.report().coverage.mode, "observe");
    for off in [Run::new("loop").conf("mode:off"), Run::new("loop").env("CENOTE_DISABLE", "1")] {
        let outcome = off.args(["10"]).run().ok();
        assert_eq!((outcome.value("driver_allocations"), outcome.value("driver_frees")), (10, 10));
        assert!(
            outcome.reports.is_empty() && outcome.left_in("pages").is_empty(),
            "{:?}",
            outcome.files
        );
        assert_eq!(outcome.stderr, "");
    }
}

// The same job with other threads about: bytes of one owner never show up at another.
#[test]
fn many_threads_never_see_each_others_bytes() {
    let outcome = Run::new("threads").args(["16", "100"]).run().ok();
    assert_eq!(outcome.pool().live_bytes, 0);
    Run::new("threads").args(["8", "50"]).old_driver().run().ok();
}

#[test]
fn a_block_may_be_freed_by_another_thread() {
    let outcome = Run::new("cross_thread").arg("20000").run().ok();
    let pool = outcome.pool();
    assert_eq!(
        (pool.live_bytes, pool.live_blocks, pool.allocations, pool.frees),
        (0, 0, 20000, 20000)
    );
}
