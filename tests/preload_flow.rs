//! Odd ways through a program: exceptions, jumps, small stacks, plugins, threads that end, libraries that come and go.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;

use harness::{MIB, Run, native};

#[test]
fn an_exception_flies_past_the_hooks() {
    let outcome = Run::new("throw").run().ok();
    assert_eq!((outcome.value("caught"), outcome.pool().live_bytes), (100, 0));
}

#[test]
fn a_jump_leaves_the_hooks_in_order() {
    let outcome = Run::new("longjmp").run().ok();
    assert_eq!((outcome.value("jumps"), outcome.pool().live_bytes), (100, 0));
}

// A hook that needs much stack, or walks off the end of a strange one, ends the program.
#[test]
fn hooks_work_on_small_and_strange_stacks() {
    for stacks in ["stacks:full", "stacks:sampled", "stacks:off"] {
        let outcome = Run::new("stacks").conf(stacks).run().ok();
        assert_eq!((outcome.value("done"), outcome.pool().live_bytes), (1, 0), "{stacks}");
    }
}

// bytehound alloc-in-tls, redhook #15: hooks are called when the thread's own data is going.
#[test]
fn a_thread_may_free_while_it_ends() {
    let outcome = Run::new("tls_exit").run().ok();
    assert_eq!((outcome.value("rounds"), outcome.pool().live_bytes), (3, 0));
}

// C17 (3), UCX #3517: two threads make the first call at once, and one of them holds the loader's lock.
#[test]
fn two_first_calls_at_once_do_not_hang() {
    for _ in 0..10 {
        let outcome = Run::new("first_race").arg(native("constructor_plugin")).run().ok();
        assert!(outcome.value("milliseconds") < 1000, "{} ms", outcome.value("milliseconds"));
        assert_eq!(outcome.pool().live_bytes, 0);
    }
}

// redhook #2: a plugin loaded RTLD_LOCAL still binds to the hooks, but the next cuMemAlloc_v2 of the preload is not in sight.
#[test]
fn a_plugin_with_local_scope_is_seen() {
    for scope in ["local", "global"] {
        let outcome = Run::new("plugin_host").arg(scope).arg(native("plugin")).run().ok();
        assert!(outcome.stdout.contains("plugin libcenote.so"), "{scope}: {}", outcome.stdout);
        assert_eq!((outcome.pool().allocations, outcome.pool().live_bytes), (1, 0), "{scope}");
    }
}

#[test]
fn a_plugin_may_go_again() {
    let outcome =
        Run::new("plugin_host").arg("local").arg(native("plugin")).arg("close").run().ok();
    let site = &outcome.report().sites[0];
    assert_eq!(site.total_bytes, 3 * MIB);
}

#[test]
fn the_driver_may_be_closed_and_opened_again() {
    let outcome = Run::new("reopen").run().ok();
    assert_eq!(outcome.stdout, "module libcenote.so\n".repeat(3));
    assert_eq!((outcome.pool().allocations, outcome.pool().live_bytes), (3, 0));
}

// ZLUDA PR 447, memray #212, #525, VirtualGL #107: a wheel has libraries of its own, found by the RPATH of the caller. A
// hooked dlopen would lose that path; a search for libcuda.so.1 by cenote would not find it.
#[test]
fn a_wheel_that_brings_its_own_driver_is_seen() {
    let wheel = harness::stage().join("native/wheel");
    fs::create_dir_all(&wheel).unwrap();
    for (link, target) in [
        ("libonlyhere.so", native("plugin")),
        ("libcuda.so.1", harness::stage().join("sim/libcuda.so.1")),
    ] {
        let _ = symlink(target, wheel.join(link));
    }
    let outcome = Run::new("runpath").no_driver().run().ok();
    assert!(outcome.stdout.contains("plugin libcenote.so"), "{}", outcome.stdout);
    assert_eq!(outcome.pool().live_bytes, 3 * MIB);
}

// A toolkit's stub of the driver comes first on the path; the program opens the true one by its full name.
#[test]
fn a_stub_on_the_path_does_not_win() {
    let stubs = harness::stage().join("native/stubs");
    fs::create_dir_all(&stubs).unwrap();
    let _ = symlink(native("stub"), stubs.join("libcuda.so.1"));
    let _ = symlink(native("stub"), stubs.join("libcuda.so"));
    let driver = harness::stage().join("sim/libcuda.so.1");
    let outcome = Run::new("reopen").arg(driver).env("LD_LIBRARY_PATH", stubs).run().ok();
    assert_eq!(outcome.pool().allocations, 3);
    let used = outcome.report().coverage.driver.clone().unwrap();
    assert!(used.ends_with("sim/libcuda.so.1"), "{used}");
}
