//! The checks of scripts/: what the library needs and exports, and which room of the source uses which.

mod harness;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use harness::{native, repository, stage};

fn script(name: &str, arguments: &[&Path]) -> Output {
    let program = repository().join("scripts").join(name);
    Command::new(program).args(arguments).output().expect("python3 is needed")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

// HAMi #27, sglang #36533, torch_memory_saver #108, vgpu-manager #89, HAMi #925.
#[test]
fn the_library_needs_and_exports_what_it_may() {
    // A debug build is larger and needs no old glibc: the limits on those are for the built package.
    let output = script("check-symbols", &[&stage().join("libcenote.so"), &stage().join("cenote")]);
    let said = said(&output);
    let for_packages =
        |line: &&str| line.contains("needs GLIBC_") || line.contains("bytes, more than");
    let wrong: Vec<_> =
        said.lines().filter(|line| *line != "symbols: fine" && !for_packages(line)).collect();
    assert!(wrong.is_empty(), "{said}");
}

// The check must be able to fail: a library that is wrong in most ways.
#[test]
fn a_bad_library_is_refused() {
    let output = script("check-symbols", &[&native("bad_library"), Path::new("/bin/true")]);
    let said = said(&output);
    assert!(!output.status.success());
    for part in [
        "needs libm.so.6",
        "undefined cuMemAllocAsync:",
        "exports cuMemAlloc,",
        "does not export cuMemAlloc_v2,",
        "has a constructor: runs_everywhere",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
}

#[test]
fn a_program_linked_with_the_doors_is_refused() {
    let output = script("check-symbols", &[&stage().join("libcenote.so"), &native("bad_library")]);
    assert!(
        said(&output).contains("exports cuMemAlloc: it was linked with the doors"),
        "{}",
        said(&output)
    );
}

#[test]
fn lower_rooms_do_not_use_upper_ones() {
    let output = script("check-layers", &[]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn an_upward_edge_is_found_in_every_form() {
    let root = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let path = root.path().join("src").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "pool/mod.rs",
        "#![forbid(unsafe_code)]\n//! [`crate::preload`] in prose is fine.\nuse crate::cuda::Driver;\n",
    );
    write("report/mod.rs", "#![forbid(unsafe_code)]\nuse crate::{ledger::Kind, pool};\n");
    write("lib.rs", "pub mod pool;");
    assert!(
        script("check-layers", &[root.path()]).status.success(),
        "{}",
        said(&script("check-layers", &[root.path()]))
    );
    let upward = [
        ("cuda/a.rs", "use crate::pool::Pool;", "cuda must not use pool::Pool"),
        (
            "conf/a.rs",
            "use crate::{\n    cuda::{real, Driver},\n    report,\n};",
            "conf must not use report",
        ),
        ("ledger/a.rs", "use super::super::page;", "ledger must not use page"),
        (
            "ledger/b/c.rs",
            "fn f() { super::super::super::preload::wake() }",
            "ledger must not use preload::wake",
        ),
        ("pool/b.rs", "use crate::cuda::{Driver, table};", "pool must not use cuda::table"),
        (
            "bin/cenote/run.rs",
            "use cenote::{conf, preload::doors};",
            "bin must not use preload::doors",
        ),
        ("shed/mod.rs", "", "src/shed has no place in the order"),
        ("pool/mod.rs", "use crate::cuda;", "src/pool/mod.rs must say #![forbid(unsafe_code)]"),
    ];
    for (file, text, problem) in upward {
        write(file, text);
        let output = script("check-layers", &[root.path()]);
        assert!(
            !output.status.success() && said(&output).contains(problem),
            "{file}: {}",
            said(&output)
        );
        fs::remove_file(root.path().join("src").join(file)).unwrap();
        let folder = root.path().join("src").join(file);
        let _ = fs::remove_dir(folder.parent().unwrap());
    }
}
