//! Loaded into every program of a job, cenote is not to be noticed: C17 (5), and "silent until the first CUDA call".

mod harness;

use std::path::{Path, PathBuf};

use harness::{Outcome, Run};

/// A program and its arguments, under the preload on a host without a driver, then without the preload: the same in every way.
fn compare(program: &str, arguments: &[&str]) -> Option<(Outcome, Outcome)> {
    let path = which(program)?;
    let run = |preload: bool| {
        let run = Run::program(&path)
            .args(arguments)
            .no_driver()
            .preload(preload)
            .without("CENOTE_RUNTIME_DIR");
        run.without("CENOTE_OUTPUT").without("SIMCUDA_VIOLATIONS").run()
    };
    let (hooked, plain) = (run(true), run(false));
    assert_eq!(hooked.status, plain.status, "{program}");
    assert_eq!(hooked.stdout, plain.stdout, "{program}");
    assert_eq!(hooked.stderr, plain.stderr, "{program}");
    for folder in ["cwd", "tmp", "run", "home", "pages", "out"] {
        assert_eq!(hooked.left_in(folder), plain.left_in(folder), "{program} {folder}");
    }
    Some((hooked, plain))
}

fn which(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

// HAMi #27 (bash died in the container), sglang #36533 (every child exited with 127).
#[test]
fn programs_without_cuda_do_not_notice() {
    compare("true", &[]).unwrap();
    compare("false", &[]).unwrap();
    compare("bash", &["-c", "echo out; echo err >&2; for i in 1 2 3; do /bin/true; done; exit 5"])
        .unwrap();
    compare("sh", &["-c", "ls / | head -2; cat /dev/null"]).unwrap();
    for (program, arguments) in [
        ("git", &["--version"][..]),
        ("ssh", &["-V"]),
        ("perl", &["-e", "print 'hello'"]),
        ("gcc", &["--version"]),
    ] {
        if compare(program, arguments).is_none() {
            eprintln!("no {program} here");
        }
    }
}

#[test]
fn a_compiler_and_an_interpreter_do_not_notice() {
    let source = "int main(void) { return 3; }";
    let script = format!("echo '{source}' > a.c && gcc -o a.out a.c && ./a.out; echo $?");
    let (hooked, _) = compare("bash", &["-c", &script]).unwrap();
    assert_eq!(hooked.stdout, "3\n");
    for program in ["python3", "/usr/bin/python3"] {
        let program = Path::new(program).file_name().unwrap().to_str().unwrap();
        let code = "import ctypes, threading, subprocess, sys; print(len(threading.enumerate())); \
                    subprocess.run(['/bin/true'], check=True); print(ctypes.CDLL(None).getpid() > 0)";
        if compare(program, &["-c", "pass"]).is_none() || compare(program, &["-c", code]).is_none()
        {
            eprintln!("no {program} here");
        }
    }
}

// No thread, no file, no cuInit before the first hooked call, with the driver loaded and asked for.
#[test]
fn nothing_happens_before_the_first_hooked_call() {
    let outcome = Run::new("names").args(["libcuda.so.1", "cuInit", "cuDeviceGetCount"]).run().ok();
    assert!(outcome.reports.is_empty() && outcome.left_in("pages").is_empty());
    assert!(outcome.calls.is_empty(), "{:?}", outcome.calls);
    let outcome = Run::new("only_count").run().ok();
    assert_eq!((outcome.value("threads"), outcome.value("count")), (1, 1));
    assert!(outcome.reports.is_empty() && outcome.left_in("pages").is_empty());
}

// `true` costs 1 ms more at most under the preload. Measured as the best of many, and with room for a busy machine.
#[test]
fn loading_costs_a_millisecond_at_most() {
    let best = |preload: bool| {
        let runs = (0..20).map(|_| {
            let run = Run::program("/bin/true").no_driver().preload(preload).arg("x");
            let started = std::time::Instant::now();
            let child = run.spawn();
            child.wait().ok();
            started.elapsed()
        });
        runs.min().unwrap()
    };
    let (without, with) = (best(false), best(true));
    assert!(with.saturating_sub(without).as_micros() < 4000, "{without:?} without, {with:?} with");
}

// A job that runs under a bare environment: no HOME, no TMPDIR, a working folder that is gone.
#[test]
fn a_bare_environment_is_enough() {
    let run = Run::new("loop")
        .arg("10")
        .without("HOME")
        .without("TMPDIR")
        .without("XDG_RUNTIME_DIR")
        .without("PATH");
    assert_eq!(run.run().ok().pool().allocations, 10);
    let run = Run::new("loop").arg("10").without("CENOTE_OUTPUT");
    let outcome = run.run().ok();
    let names = outcome.left_in("cwd");
    assert_eq!(
        names,
        [PathBuf::from(format!("cenote-loop-{}.json", outcome.pid))],
        "the default name"
    );
}

// cuInit is hooked for the sake of PyTorch's adapter. A program that asks no more than whether there is a card has nothing to report.
#[test]
fn a_program_that_only_initialises_leaves_nothing() {
    for configuration in ["", "torch:adapter"] {
        let outcome = Run::new("init_only").conf(configuration).run().ok();
        assert_eq!(outcome.stdout, "libcenote.so 0\n");
        assert!(outcome.reports.is_empty() && outcome.left_in("pages").is_empty());
        assert_eq!(outcome.stderr, "");
    }
}
