//! The real CUDA runtimes, shared and static, find the driver through cenote.
//!
//! Without a card they get as far as looking up their 300 to 500 functions; then their check of the driver's tables fails, so
//! what a call answers, and how the process ends, is not asked. Reports behind this: nvshare #11, #14 (CUDA 12 programs went
//! round the hooks), UCX #3210, #6038, #7865 (static runtimes), vcuda-controller #20, #32, HAMi-core #57, #233, #320 (wrong
//! form for a name and version).

mod harness;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Outcome, Run, compiled, native, repository, stage};

/// What pip calls them, and where the runtime lies in the wheel.
const WHEELS: [(&str, &str, &str); 2] = [
    (
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia_cuda_runtime_cu12-12.9",
        "nvidia/cuda_runtime/lib",
    ),
    ("nvidia-cuda-runtime==13.0.*", "nvidia_cuda_runtime-13.0", "nvidia/cu13/lib"),
];

/// A runtime with a program that uses it.
struct Runtime {
    name: String,
    run: Run,
}

/// The folder with the runtime's libraries; none, with the reason printed, where pip or the network is absent.
fn unpacked((requirement, file, libraries): (&str, &str, &str)) -> Option<PathBuf> {
    let wheels = stage().join("wheels");
    let folder = wheels.join(file);
    if !folder.exists() {
        let find = || {
            fs::read_dir(&wheels).into_iter().flatten().flatten().map(|entry| entry.path()).find(
                |path| {
                    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                    name.starts_with(file) && name.ends_with(".whl")
                },
            )
        };
        if find().is_none() {
            let pip =
                ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"];
            let pip = Command::new("python3").args(pip).arg(&wheels).arg(requirement).output();
            let failed = match &pip {
                Ok(output) if output.status.success() => None,
                Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(reason) = failed {
                eprintln!("skipped: {requirement} is not to be had: {reason}");
                return None;
            }
        }
        let wheel = find().expect("pip has downloaded it");
        let unfinished = wheels.join(format!("{file}.{}.tmp", std::process::id()));
        let unzip = Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .arg(wheel)
            .arg(&unfinished)
            .status();
        assert!(unzip.unwrap().success());
        // Another test may have been faster.
        let _ = fs::rename(&unfinished, &folder);
        let _ = fs::remove_dir_all(&unfinished);
    }
    Some(folder.join(libraries))
}

fn runtimes() -> Vec<Runtime> {
    let mut runtimes = Vec::new();
    for wheel in WHEELS {
        let Some(libraries) = unpacked(wheel) else { continue };
        let shared = fs::read_dir(&libraries).unwrap().map(|entry| entry.unwrap().path());
        let shared =
            shared.filter(|path| path.to_string_lossy().contains("libcudart.so.")).min().unwrap();
        let is_static = libraries.join("libcudart_static.a");
        let flags = [
            OsStr::new("-DLINKED"),
            is_static.as_os_str(),
            OsStr::new("-lrt"),
            OsStr::new("-lstdc++"),
            OsStr::new("-lm"),
        ];
        let program = compiled("cudart", &format!("cudart-{}", wheel.1), &flags);
        let with_driver = |run: Run| run.env("SIMCUDA_STUBS", "1").with_violations();
        runtimes.push(Runtime {
            name: format!("{} shared", wheel.0),
            run: with_driver(Run::new("cudart").arg(shared)),
        });
        runtimes.push(Runtime {
            name: format!("{} static", wheel.0),
            run: with_driver(Run::program(program)),
        });
    }
    runtimes
}

/// The lookups that reached the driver: name, version, flags.
fn lookups(log: &Path) -> Vec<(String, String, String)> {
    let log = fs::read_to_string(log).unwrap_or_default();
    let field = |line: &str, name: &str| {
        let rest = line.split_once(&format!("{name}=")).map(|(_, rest)| rest)?;
        Some(rest.split_whitespace().next()?.trim_matches('"').to_owned())
    };
    let line = |line: &str| {
        Some((field(line, " symbol")?, field(line, " version")?, field(line, " flags")?))
    };
    log.lines().filter(|line| line.contains(" cuGetProcAddress")).filter_map(line).collect()
}

/// Function and library of each pointer that the runtime has kept.
fn kept(outcome: &Outcome) -> BTreeSet<(String, String)> {
    let pairs = outcome.stdout.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, library)| (name.to_owned(), library.to_owned())).collect()
}

fn hooked() -> BTreeSet<String> {
    let exports = fs::read_to_string(repository().join("scripts/exports.txt")).unwrap();
    exports.lines().filter(|line| line.starts_with("cu")).map(str::to_owned).collect()
}

// Every pointer to a hooked function is the hook, every other one the driver's own, and there is none more or less than
// without cenote. A hook that does not answer for cuGetProcAddress itself fails here: the runtime goes on with the driver's.
#[test]
fn the_runtime_keeps_hooks_for_hooked_functions_and_nothing_else() {
    let hooked = hooked();
    for Runtime { name, run } in runtimes() {
        let plain = kept(&run.clone().preload(false).run());
        assert!(plain.len() > 80, "{name}: {} pointers", plain.len());
        let expected: BTreeSet<_> = plain
            .iter()
            .map(|(function, library)| match hooked.contains(function) {
                true => (function.clone(), "libcenote.so".to_owned()),
                false => (function.clone(), library.clone()),
            })
            .collect();
        assert_eq!(kept(&run.run()), expected, "{name}");
        let needed = [
            "cuMemAlloc_v2",
            "cuMemFree_v2",
            "cuMemGetInfo_v2",
            "cuMemAllocAsync",
            "cuMemAllocAsync_ptsz",
        ];
        for function in needed {
            assert!(
                expected.contains(&(function.to_owned(), "libcenote.so".to_owned())),
                "{name}: {function}"
            );
        }
    }
}

// The runtime asks the same questions in the same order: cenote neither adds one, nor makes it take another way.
#[test]
fn the_runtime_asks_the_driver_the_same_questions() {
    for Runtime { name, run } in runtimes() {
        let log = run.folder().join("log");
        let ask = |run: Run| {
            let _ = fs::remove_file(&log);
            run.env("SIMCUDA_LOG", &log).run();
            lookups(&log)
        };
        let plain = ask(run.clone().preload(false));
        let with_cenote = ask(run.clone());
        assert!(plain.len() > 300, "{name}: {} lookups", plain.len());
        assert_eq!(with_cenote, plain, "{name}");
    }
}

// Each of those questions, asked again by a program of ours, in both forms of the lookup, has the driver's answer or its hook.
#[test]
fn each_question_of_a_runtime_has_the_drivers_answer() {
    for Runtime { name, run } in runtimes() {
        let log = run.folder().join("log");
        let _kept = run.preload(false).env("SIMCUDA_LOG", &log).run();
        let number = |flags: &str| u64::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap();
        let lines = lookups(&log).into_iter().map(|(symbol, version, flags)| {
            let symbol = if symbol.is_empty() { "-" } else { &symbol };
            format!("{symbol} {version} {}\n", number(&flags))
        });
        let questions: String = lines.collect();
        let ask = |preload: bool| {
            let run = Run::program(native("triples")).preload(preload).env("SIMCUDA_STUBS", "1");
            run.input(questions.clone()).run().ok().stdout
        };
        let (with_cenote, plain) = (ask(true), ask(false));
        let hooks = with_cenote.matches("libcenote.so").count();
        assert!(hooks > 30, "{name}: {hooks}");
        assert_eq!(with_cenote.replace("libcenote.so", "libcuda.so.1"), plain, "{name}");
    }
}
