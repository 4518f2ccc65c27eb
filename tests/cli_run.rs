//! `cenote run`: how it starts a job, what the job's environment is, and what is said when it has ended.

mod cli;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Release;

use cenote::page::State;
use cli::{cenote, doctor, fixture, flat, harmless_library, job, page_of, page_of_the_dead, run};
use tempfile::TempDir;

#[test]
fn a_job_without_its_dashes() {
    let (status, _, error) =
        run(cenote().args(["run", "-c", "limit:1GiB", "python", "x.py", "-v"]));
    assert_eq!(status, 2);
    assert!(error.ends_with("cenote run -c limit:1GiB -- python x.py -v\n"), "{error}");
}

#[test]
fn a_job_that_never_reaches_cuda() {
    let (status, out, error) = run(&mut job(&[], "echo out; echo err >&2; exit 7"));
    assert_eq!((status, out.as_str()), (7, "out\n"));
    assert!(error.starts_with("err\ncenote: no process of the job reached CUDA"), "{error}");
    assert!(error.contains("next: cenote doctor -- sh -c 'echo out"), "{error}");
    assert_eq!(run(&mut job(&["-q"], "exit 7")), (7, String::new(), String::new()));
}

#[test]
fn a_job_without_cenote_is_told_so() {
    let (_, _, error) = run(job(&[], "true").env("CENOTE_DISABLE", "1"));
    assert!(error.starts_with("cenote: cenote was switched off (CENOTE_DISABLE)"), "{error}");
    let (_, _, error) = run(&mut job(&["-c", "mode:off"], "true"));
    assert!(error.starts_with("cenote: cenote was switched off (mode:off)"), "{error}");
}

#[test]
fn a_process_without_its_report_did_reach_cuda() {
    let folder = TempDir::new().unwrap();
    let alive = page_of(folder.path(), std::process::id(), &folder.path().join("a.json"));
    let link = format!("ln -s {} $CENOTE_RUN_DIR", alive.path.as_ref().unwrap().display());
    let (_, _, error) = run(&mut job(&[], &link));
    assert!(error.contains("outlives the job") && error.lines().count() == 1, "{error}");
    alive.page.report_path.set(b"/nowhere/a.json");
    alive.page.state.store(State::Reported as u32, Release);
    let (_, _, error) = run(&mut job(&[], &link));
    assert!(error.contains("can't read /nowhere/a.json") && error.lines().count() == 1, "{error}");
    assert_eq!(error.matches("No such file").count(), 1, "{error}");
}

#[test]
fn a_job_that_dies_of_a_signal() {
    let (_, _, error) = run(&mut job(&[], "kill -KILL $$"));
    assert!(error.contains(", ended by signal 9\n"), "{error}");
    assert_eq!(run(&mut job(&["-q"], "kill -KILL $$")).0, 137);
}

#[test]
fn a_signal_to_us_is_handed_on() {
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = job(&["-q"], script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn the_environment_of_a_job() {
    let script = "echo $LD_PRELOAD; echo $CENOTE_CONF; echo $CENOTE_OUTPUT; stat -c %a $CENOTE_RUN_DIR; echo $CENOTE_RUN_DIR";
    let folder = TempDir::new().unwrap();
    let mut command =
        job(&["-q", "-c", "limit:2GiB", "-c", "mode:observe", "-o", "out/%p.json"], script);
    command.env("LD_PRELOAD", "").env("CENOTE_CONF", "limit:1GiB").current_dir(folder.path());
    let (status, out, error) = run(&mut command);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(lines[0].contains("/libc"), "{out}");
    assert_eq!(lines[1], "limit:1GiB,limit:2GiB,mode:observe", "the later one counts");
    assert_eq!(
        lines[2],
        folder.path().canonicalize().unwrap().join("out/%p.json").to_str().unwrap()
    );
    assert_eq!(lines[3], "700");
    assert!(!Path::new(lines[4]).exists(), "the folder is removed");
}

#[test]
fn other_preloads_stay() {
    let library = harmless_library();
    let mut command = job(&["-q"], "echo $LD_PRELOAD");
    let (_, out, _) = run(command.env("LD_PRELOAD", "libm.so.6"));
    assert_eq!(out.trim(), format!("{}:libm.so.6", fs::canonicalize(library).unwrap().display()));
}

#[test]
fn a_wrong_configuration_warns_or_refuses() {
    let (status, _, error) = run(&mut job(&["-q", "-c", "limti:1GiB"], "exit 3"));
    assert_eq!(status, 3);
    assert!(error.contains("did you mean \"limit\"?"), "{error}");
    let (status, out, error) = run(&mut job(&["-c", "limti:1GiB,strict:true"], "echo started"));
    assert_eq!((status, out.as_str()), (120, ""));
    assert!(error.contains("strict:true"), "{error}");
}

#[test]
fn an_unknown_placeholder_is_named() {
    let line = "unknown placeholder \"%z\" in CENOTE_OUTPUT: it takes %p %e";
    let (status, _, error) = run(&mut job(&["-q", "-o", "%z.json"], "exit 3"));
    assert!(status == 3 && error.contains(line), "{error}");
    let library = harmless_library();
    for verb in ["env", "doctor"] {
        let mut command = cenote();
        command.args([verb, "--library", &library]).env("CENOTE_OUTPUT", "a/%z.json");
        let (_, text, error) = run(&mut command);
        let told = flat(&format!("{text}{error}"));
        assert!(told.contains(line), "{told}");
    }
}

#[test]
fn what_can_not_be_started_is_said() {
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "hello").unwrap();
    for (program, part) in [
        (folder.path().to_str().unwrap(), ": it is a folder"),
        (text.to_str().unwrap(), ": it is not executable"),
        ("no-such-program", ": it is in no folder of PATH"),
    ] {
        let (status, _, error) =
            run(cenote().args(["run", "--library", &harmless_library(), "--", program]));
        assert!(
            status == 120 && error.contains(&format!("can't start {program}{part}")),
            "{error}"
        );
        let (status, found) = doctor(&folder, program);
        let found = flat(&found);
        assert!(status == 1 && found.contains(&format!("can't start {program}{part}")), "{found}");
    }
}

#[test]
fn a_job_that_can_not_start() {
    let library = harmless_library();
    let (status, _, error) =
        run(cenote().args(["run", "--library", &library, "--", "/nowhere/program"]));
    assert!(status == 120 && error.contains("can't start /nowhere/program"), "{error}");
    let folder = TempDir::new().unwrap();
    let text = folder.path().join("libcenote.so");
    fs::write(&text, "hello").unwrap();
    for (library, part) in
        [(text.to_str().unwrap(), "it is no 64-bit ELF file"), ("/nowhere/lib.so", "can't open")]
    {
        let (status, _, error) = run(cenote().args(["run", "--library", library, "--", "true"]));
        assert!(status == 120 && error.contains(part), "{error}");
    }
}

#[test]
fn run_makes_the_report_of_a_process_that_was_killed() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("train.json");
    let page = page_of_the_dead(folder.path(), 4_000_001, &output);
    let script = format!("cp {} $CENOTE_RUN_DIR; kill -KILL $$", page.display());
    let (status, _, error) = run(&mut job(&[], &script));
    assert_eq!(status, 137);
    for part in [
        "1 process used CUDA",
        "never out of memory",
        ", ended by signal 9",
        "3.00 MiB",
        "suspects        not known: 1 process did not end by itself",
        "1 process ended without a report",
    ] {
        assert!(error.contains(part), "{part:?} is not in\n{error}");
    }
    assert!(error.ends_with(&format!("next: cenote summary {}\n", output.display())), "{error}");
    assert!(error.lines().count() <= 9, "{error}");
    assert!(output.exists());
}

#[test]
fn run_reads_the_reports_that_processes_wrote() {
    let folder = TempDir::new().unwrap();
    let mut script = String::new();
    for (pid, report) in [(4_000_001, "train.json"), (4_000_002, "clean.json")] {
        let file = page_of(folder.path(), pid, &folder.path().join("unused.json"));
        file.page.report_path.set(fixture(report).to_str().unwrap().as_bytes());
        file.page.state.store(State::Reported as u32, Release);
        script += &format!("cp {} $CENOTE_RUN_DIR; ", file.path.unwrap().display());
    }
    let (status, _, error) = run(&mut job(&[], &script));
    assert_eq!(status, 0);
    for part in [
        "2 processes used CUDA",
        "out of memory 1 time: 5.00 GiB asked,",
        "limit 70.00 GiB; most\n  held by at::native::empty",
        "65.00 GiB  rank 3",
        "1 growing, 1 never freed",
    ] {
        assert!(error.contains(part), "{part:?} is not in\n{error}");
    }
}

/// Ends with the line of the next command for four processes that wrote `1.json` to `4.json`.
fn next_of_four(folder: &Path) -> String {
    let pages = TempDir::new().unwrap();
    let mut script = String::new();
    for n in 1..=4 {
        let report = folder.join(format!("{n}.json"));
        fs::copy(fixture("clean.json"), &report).unwrap();
        let file = page_of(pages.path(), 4_000_000 + n, &report);
        file.page.report_path.set(report.to_str().unwrap().as_bytes());
        file.page.state.store(State::Reported as u32, Release);
        script += &format!("cp {} $CENOTE_RUN_DIR; ", file.path.unwrap().display());
    }
    let (_, _, error) = run(job(&[], &script).current_dir(folder));
    error.lines().last().unwrap().to_owned()
}

#[test]
fn the_next_command_names_our_reports_only() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().canonicalize().unwrap();
    assert_eq!(next_of_four(&path), "  next: cenote summary .");
    fs::copy(fixture("clean.json"), path.join("old.json")).unwrap();
    assert_eq!(next_of_four(&path), "  next: cenote summary 1.json 2.json 3.json 4.json");
}
