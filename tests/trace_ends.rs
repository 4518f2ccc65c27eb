//! `trace:FILE` and the ends of processes: forks, exits of all kinds, threads that leave. What the programs do and how they end must
//! be as without it.

mod harness;

use harness::Run;

/// Runs it with a trace; the harness says if it hangs.
fn traced(program: &str, arguments: &[&str]) -> Run {
    Run::new(program).args(arguments).conf("trace:%e-%p.trz")
}

#[test]
fn forks_are_as_without() {
    for (program, arguments) in [
        ("fork_before", &[][..]),
        ("fork_after", &["keep"]),
        ("fork_after", &["free"]),
        ("fork_busy", &["50"]),
    ] {
        traced(program, arguments).env("SIMCUDA_STRICT_FORK", "1").run().ok();
    }
}

#[test]
fn exits_are_as_without() {
    for how in ["return", "_exit"] {
        traced("exit", &[how]).env("SIMCUDA_STRICT_EXIT", "1").run().ended_with(7);
    }
    // The main thread leaves, and the last one of the program: ours must not keep the process.
    traced("exit", &["last_thread"]).run().ok();
    traced("exit", &["abort"]).run().killed_by(libc::SIGABRT);
}

#[test]
fn refusals_are_as_without() {
    for fault in ["cuMemAlloc_v2:3=2", "cuMemFree_v2:2=1", "cuMemAlloc_v2:*=2"] {
        traced("sweep", &[]).env("SIMCUDA_FAIL", fault).run().ok();
    }
}
