//! When cached memory goes back to the driver, and what `CENOTE_CONF` says about it.

mod harness;

use harness::{GIB, MIB, Run};

// "After a model switch the neighbour starves": memory that nobody asks for goes back within a second of real time.
#[test]
fn idle_memory_goes_back_within_a_second() {
    for extra in [&[][..], &["small"]] {
        let outcome = Run::new("idle").args(["268435456", "3000"]).args(extra).run().ok();
        assert_eq!(outcome.value("before"), 0);
        assert!(outcome.value("after") >= 1);
        assert!(outcome.value("milliseconds") < 1200, "{} ms", outcome.value("milliseconds"));
    }
}

#[test]
fn idle_memory_stays_below_retain() {
    let outcome = Run::new("idle").args(["268435456", "1200"]).conf("retain:512MiB").run().ok();
    assert_eq!(outcome.value("after"), 0);
    assert_eq!(outcome.pool().cached_bytes, 256 * MIB);
}

#[test]
fn idle_release_says_how_long() {
    let outcome =
        Run::new("idle").args(["268435456", "3000"]).conf("idle_release:100ms").run().ok();
    assert!(outcome.value("milliseconds") < 600, "{} ms", outcome.value("milliseconds"));
    assert_eq!(outcome.pool().idle_releases, 1);
    assert_eq!(outcome.pool().reserved_bytes, 0);
}

// A free to the driver waits for every kernel and stalls the launches of all threads: not while the device works.
#[test]
fn nothing_is_given_back_while_the_device_works() {
    let outcome = Run::new("busy_idle").env("SIMCUDA_CLOCK", "real").run().ok();
    assert_eq!(outcome.value("while_busy"), 0);
    assert_eq!(outcome.value("after"), 1);
}

// HAMi #1370: what cuMemGetInfo says must be there. 512 MiB are cached of 1 GiB, 768 MiB are asked for.
#[test]
fn a_request_that_does_not_fit_takes_the_cache_first() {
    let run = Run::new("fill").args([512 * MIB, 768 * MIB].map(|bytes| bytes.to_string()));
    let outcome = run.env("SIMCUDA_CAPACITY", GIB.to_string()).run().ok();
    assert_eq!((outcome.value("freed_before"), outcome.value("code")), (0, 0));
    assert!(
        (4..=8).contains(&outcome.value("freed_after")),
        "4 blocks are enough: {}",
        outcome.value("freed_after")
    );
    assert_eq!((outcome.pool().flushes, outcome.pool().out_of_memory), (1, 0));
}

#[test]
fn a_limit_counts_what_is_cached_as_free() {
    let run = Run::new("fill").args([512 * MIB, 768 * MIB].map(|bytes| bytes.to_string()));
    let outcome = run.conf("limit:1GiB").run().ok();
    assert_eq!(outcome.value("code"), 0);
    assert!(outcome.pool().peak_reserved_bytes <= GIB);
    assert_eq!(outcome.pool().limit_bytes, Some(GIB));
}

#[test]
fn a_fraction_is_a_limit_of_the_card() {
    let run = Run::new("shares")
        .arg((64 * MIB).to_string())
        .env("SIMCUDA_CAPACITY", (4 * GIB).to_string());
    let outcome = run.conf("per_process_memory_fraction:0.25").run().ok();
    assert_eq!((outcome.value("taken"), outcome.value("total")), (GIB, GIB));
    let both = Run::new("shares")
        .arg((64 * MIB).to_string())
        .env("SIMCUDA_CAPACITY", (4 * GIB).to_string());
    let outcome = both.conf("per_process_memory_fraction:0.25,limit:512MiB").run().ok();
    assert_eq!(outcome.value("taken"), 512 * MIB, "the smaller counts");
}

// The threshold keeps the cache below a share of the limit, also where no fraction is set, unlike PyTorch's.
#[test]
fn garbage_collection_keeps_the_cache_below_its_threshold() {
    let run = Run::new("fill").args([768 * MIB, 128 * MIB].map(|bytes| bytes.to_string()));
    let outcome = run.conf("limit:1GiB,garbage_collection_threshold:0.5").run().ok();
    assert_eq!(outcome.value("code"), 0);
    assert!(outcome.pool().garbage_collections >= 1);
    assert!(outcome.pool().reserved_bytes <= 512 * MIB, "{} bytes", outcome.pool().reserved_bytes);
    assert_eq!(outcome.pool().out_of_memory, 0);
}

// A cached block of 64 MiB serves 64 and 60 MiB, and not 32: what is left over would be lost.
#[test]
fn a_block_is_not_wasted_on_a_much_smaller_request() {
    let outcome = Run::new("split").args(["64", "60", "32"]).run().ok();
    assert_eq!(outcome.values("driver_allocations"), [0, 0, 1]);
}

// With max_split_size_mb large blocks serve only requests up to max_non_split_rounding_mb smaller.
#[test]
fn max_split_size_says_what_a_large_block_serves() {
    let conf = "max_split_size_mb:32,max_non_split_rounding_mb:8";
    let outcome = Run::new("split").args(["58", "52"]).conf(conf).run().ok();
    assert_eq!(outcome.values("driver_allocations"), [0, 1]);
    let conf = "max_split_size_mb:32,max_non_split_rounding_mb:16";
    let outcome = Run::new("split").args(["50", "40"]).conf(conf).run().ok();
    assert_eq!(outcome.values("driver_allocations"), [0, 1]);
}

// A wrong part of the configuration never stops a job.
#[test]
fn a_wrong_key_is_named_and_the_rest_counts() {
    let run = Run::new("loop").arg("5").conf("limti:1GiB,mode:observe").env("CENOTE_LOG", "warn");
    let outcome = run.run().ok();
    assert_eq!(outcome.report().coverage.mode, "observe");
    assert!(outcome.stderr.contains("limit"), "{}", outcome.stderr);
    assert!(
        outcome.report().notes.iter().any(|note| note.text.contains("limit")),
        "{:?}",
        outcome.report().notes
    );
    // Said once, also where nobody asked for messages.
    let outcome = Run::new("threads").args(["4", "5"]).conf("limti:1GiB").run().ok();
    assert_eq!(outcome.stderr.matches("limti").count(), 1, "{}", outcome.stderr);
}
