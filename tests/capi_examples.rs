//! `examples/c` and `examples/cpp`, compiled and run as their first lines say; the stand-in driver's header stands in for cuda.h.

mod harness;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Run, repository, stage};

/// An example's program, compiled with these flags after its source.
fn compiled(source: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let folder = stage().join("examples");
    let program = folder.join(source.replace('/', "-"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cuda.h"), "#include \"simcuda.h\"\n").unwrap();
    let output = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-I", "include", "-I", "tests/simcuda", "-I"])
        .args([&folder, &repository().join("examples").join(source)])
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(stage())
        .arg("-L")
        .arg(stage().join("sim"))
        .args(flags)
        .current_dir(repository())
        .output()
        .expect("a C compiler is needed");
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: PathBuf) -> harness::Outcome {
    let libraries = format!("{}:{}", stage().display(), stage().join("sim").display());
    Run::program(program).preload(false).env("LD_LIBRARY_PATH", libraries).run().ok()
}

#[test]
fn c() {
    let flags = ["-std=c89", "-l:libcenote.so", "-l:libcuda.so.1"];
    let outcome = run(compiled("c/alloc.c", "gcc", &flags));
    assert_eq!(outcome.value("live"), 41_943_040);
    assert_eq!(outcome.value("peak"), 146_800_640);
    assert!(outcome.value("given back") >= 146_800_640);
    assert!(outcome.stdout.contains("device 0 has no 1125899906842624 bytes left"));
}

#[test]
fn cpp() {
    let flags = ["-std=c++17", "-l:libcuda.so.1", "-ldl"];
    let outcome = run(compiled("cpp/alloc.cpp", "g++", &flags));
    assert_eq!((outcome.value("live"), outcome.value("peak")), (0, 146_800_640));
    assert_eq!(outcome.value("misses"), 2, "a thousand steps and one block");
}
