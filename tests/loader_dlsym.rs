//! The dlsym door: it answers for exact names of the driver only, and for everything else it is not there. Case C17 (1), (2).

mod harness;

use std::collections::BTreeMap;

use harness::{Run, native, stage};

/// Library that answered, by name and kind of handle; "nowhere" and the error's text where there is none.
fn answers(outcome: &harness::Outcome) -> BTreeMap<(String, String), (String, String)> {
    let split = |line: &str| {
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut next = || words.next().unwrap();
        ((next(), next()), (next(), next()))
    };
    outcome.stdout.lines().map(split).collect()
}

// C17 (1), nvshare #27: by handle, by default, by next; no recursion.
#[test]
fn hooked_names_are_answered_by_each_kind_of_handle() {
    let names = [
        "cuMemAlloc_v2",
        "cuMemFree_v2",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cuMemAllocAsync_ptsz",
    ];
    let outcome = Run::new("names").arg("libcuda.so.1").args(names).run().ok();
    let found = answers(&outcome);
    for name in names {
        for kind in ["handle", "default"] {
            assert_eq!(
                found[&(name.to_owned(), kind.to_owned())].0,
                "libcenote.so",
                "{name} {kind}"
            );
        }
        // From the program, the next library in the search order is the preload itself.
        assert_eq!(found[&(name.to_owned(), "next".to_owned())].0, "libcenote.so", "{name}");
    }
    assert!(outcome.elapsed.as_millis() < 1000);
}

#[test]
fn other_names_of_the_driver_are_left_alone() {
    let names = [
        "cuDriverGetVersion",
        "cuDeviceGet",
        "cuCtxRecordEvent",
        "cuPointerGetAttribute",
        "cuGetExportTable",
        "cuStreamQuery",
    ];
    let run = || Run::new("names").arg("libcuda.so.1").args(names);
    let (hooked, plain) = (run().run().ok(), run().preload(false).run().ok());
    assert_eq!(hooked.stdout, plain.stdout);
    assert!(
        hooked.stdout.contains("cuDriverGetVersion handle libcuda.so.1 -"),
        "{}",
        hooked.stdout
    );
}

// HAMi-core #215: the hook claimed every name with "cu" in front, and cuDNN 9 failed to load. The library here defines a
// cuMemFree_v2 of its own, too: who asks it for that gets it.
#[test]
fn names_that_only_begin_like_the_drivers_belong_to_their_library() {
    let names = [
        "cudnnCreate",
        "cublasCreate_v2",
        "cuMemAlloc",
        "cuMemAlloc_v3",
        "cuMemAlloc_v20",
        "cuMemAllocX",
        "cuMemAllocAsync_ptszz",
        "cuMemFre",
        "cuMem",
        "cu",
        "cuda",
        "cuGetProcAddressX",
        "dlsymX",
        "cuMemFree_v2",
    ];
    let library = native("many_names");
    let run = || Run::new("names").arg(&library).args(names);
    let (hooked, plain) = (run().run().ok(), run().preload(false).run().ok());
    let (hooked, plain) = (answers(&hooked), answers(&plain));
    for name in names {
        let by_handle = (name.to_owned(), "handle".to_owned());
        assert_eq!(hooked[&by_handle], plain[&by_handle], "{name}");
        assert_eq!(hooked[&by_handle].0, "many_names", "{name}");
    }
}

// The text of dlerror is the true one's: programs print it, and tell a NULL symbol from a missing one by it.
#[test]
fn a_missing_name_is_missing_in_the_same_words() {
    let names = ["no_such_name", "cuNoSuchName", "cuMemAlloc_v9", "cuCtxRecordEventX"];
    let run = || Run::new("names").arg("libcuda.so.1").args(names);
    let (hooked, plain) = (run().run().ok(), run().preload(false).run().ok());
    assert_eq!(hooked.stdout, plain.stdout);
    assert!(hooked.stdout.contains("undefined symbol"), "{}", hooked.stdout);
}

// nvshare #18: callers found a _v2 in the hook that their old driver does not have, and believed in it.
#[test]
fn a_name_that_the_driver_lacks_is_not_answered() {
    let names = ["cuGetProcAddress_v2", "cuStreamBeginCaptureToGraph", "cuMemAlloc_v2"];
    let hooked =
        answers(&Run::new("names").arg("libcuda.so.1").args(names).old_driver().run().ok());
    let plain =
        Run::new("names").arg("libcuda.so.1").args(names).old_driver().preload(false).run().ok();
    let plain = answers(&plain);
    let mut missing = 0;
    for name in names {
        let by_handle = (name.to_owned(), "handle".to_owned());
        assert_eq!(hooked[&by_handle].0 == "nowhere", plain[&by_handle].0 == "nowhere", "{name}");
        assert_eq!(
            hooked[&by_handle].1, plain[&by_handle].1,
            "{name}: the error is the true one's"
        );
        missing += usize::from(plain[&by_handle].0 == "nowhere");
    }
    assert!(missing >= 1, "the old driver lacks cuGetProcAddress_v2");
}

// HAMi #2903 (`import torch` hung): RTLD_NEXT means "after the library that asks", however often it asks and from whichever
// thread. A hook that calls the true dlsym answers for its own place in the order: 321 becomes a loop or 3.
#[test]
fn rtld_next_goes_on_from_the_library_that_asks() {
    let chain = [1, 2, 3].map(|link| native(&format!("next_{link}")));
    let [first, second, third] = chain;
    let run = Run::new("next_chain").preload(false);
    let cenote = stage().join("libcenote.so");
    let orders = [
        run.clone().after(&cenote).after(&first).after(&second).after(&third),
        run.clone().after(&first).after(&second).after(&third).after(&cenote),
        run.after(&first).after(&cenote).after(&second).after(&third),
    ];
    for order in orders {
        assert_eq!(order.run().ok().value("done"), 1);
    }
}

// HAMi-core #326 (WSL2): the driver looks cuInit and others up through its own handle; a hook there means a stack overflow.
#[test]
fn the_driver_finds_itself_and_not_the_hooks() {
    let outcome = Run::new("loop").arg("20").env("SIMCUDA_SELF_DLSYM", "1").run().ok();
    assert_eq!(outcome.value("driver_allocations"), 1);
    assert!(outcome.elapsed.as_millis() < 1000);
    assert_eq!(outcome.pool().allocations, 20);
}

// The same with hooked names; the stand-in driver looks up cuInit alone. Without the look at the caller's address, `wrong` is 2.
#[test]
fn the_driver_finds_its_own_hooked_functions_too() {
    let folder = stage().join("native/self");
    std::fs::create_dir_all(&folder).unwrap();
    let _ = std::os::unix::fs::symlink(native("self_driver"), folder.join("libcuda.so.1"));
    let outcome =
        Run::new("self_driver_host").arg(folder.join("libcuda.so.1")).no_driver().run().ok();
    assert_eq!(outcome.value("wrong"), 0);
    assert!(
        outcome.stdout.contains("host libcenote.so"),
        "anybody else gets the hook: {}",
        outcome.stdout
    );
}

// nvshare #21, alnair, GOTCHA PR 101: glibc moved dlsym to another version in 2.34; both must lead to the door.
#[test]
fn every_version_of_dlsym_is_the_door() {
    let outcome = Run::new("versions").run().ok();
    for line in ["new libcenote.so", "old libcenote.so"] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
}

// The driver in a local scope, as every Python extension has it: whoever has it in sight finds the hook by default too. (The
// program itself, which has not, finds the hook where it would find nothing; the call then works.)
#[test]
fn a_driver_in_a_local_scope_is_found_from_there() {
    let outcome = Run::new("plugin_host").arg("local").arg(native("plugin")).run().ok();
    assert!(outcome.stdout.contains("default libcenote.so"), "{}", outcome.stdout);
    let plain =
        Run::new("plugin_host").arg("local").arg(native("plugin")).preload(false).run().ok();
    assert!(plain.stdout.contains("default libcuda.so.1"), "{}", plain.stdout);
    let names = ["cuMemAlloc_v2", "cuInit", "cuNoSuchName"];
    let hooked =
        answers(&Run::new("names").arg("libcuda.so.1").args(names).env("LOCAL", "1").run().ok());
    let of = |name: &str, kind: &str| hooked[&(name.to_owned(), kind.to_owned())].0.as_str();
    assert_eq!(of("cuMemAlloc_v2", "handle"), "libcenote.so");
    assert!(["nowhere", "libcenote.so"].contains(&of("cuMemAlloc_v2", "default")));
    assert_eq!((of("cuInit", "default"), of("cuNoSuchName", "default")), ("nowhere", "nowhere"));
}
