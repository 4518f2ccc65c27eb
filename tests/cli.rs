//! The command line as a user meets it: what it prints, where it writes, and the status that it ends with.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cenote::ledger::{Kind, Sites};
use cenote::page::{self, PageFile, State};
use tempfile::TempDir;

/// The program, in an environment without settings.
fn cenote() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cenote"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CENOTE_")
            || ["LD_PRELOAD", "NO_COLOR", "CLICOLOR_FORCE", "XDG_RUNTIME_DIR"].contains(&&*name)
        {
            command.env_remove(name);
        }
    }
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A library that may be preloaded into anything: libc itself.
fn harmless_library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.split_whitespace().find(|word| word.contains("/libc.so") || word.contains("/libc-2."));
    libc.unwrap().to_owned()
}

/// `cenote run --library LIBC OPTIONS -- sh -c SCRIPT`
fn job(options: &[&str], script: &str) -> Command {
    let mut command = cenote();
    command
        .args(["run", "--library", &harmless_library()])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

// --- readers ---

#[test]
fn a_bare_path_is_a_summary() {
    let (status, bare, _) = run(cenote().arg(fixture("train.json")));
    let (_, summary, _) = run(cenote().arg("summary").arg(fixture("train.json")));
    assert_eq!(status, 0);
    assert_eq!(bare, summary);
}

#[test]
fn a_summary_explains_the_card() {
    let (_, text, _) = run(cenote().arg("summary").arg(fixture("train.json")));
    for part in [
        "rank 3 of 8",
        "driver used 70.80 GiB (sampled 1.0 s before the end) = tracked 69.04 GiB + context 600.00 MiB +\n    unaccounted 1.17 GiB (of it modules 900.00 MiB)",
        "out of memory after 10 m 00 s on GPU 0: 5.00 GiB asked; the limit of 70.00 GiB allows 4.00 GiB\n    more\n",
        "held 60.00 GiB in 130 blocks: at::native::empty",
        "99.3% hits of 123,456 allocations",
        "largest free 2.00 GiB of 7.23 GiB free",
        "model::step (libmodel.so)",
        "leak suspects: 800.00 MiB in 2 sites",
        "next: cenote leaks ",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(
        text.find("out of memory after").unwrap() < text.find("shared segment after").unwrap(),
        "{text}"
    );
    assert!(!text.contains("was refused"), "the sentence of the event says the same: {text}");
    assert!(!text.contains("CachingAllocator"), "{text}");
    let (_, text, _) = run(cenote().args(["summary", "--explain"]).arg(fixture("train.json")));
    assert!(text.contains("unaccounted             the rest:"), "{text}");
}

#[test]
fn leaks_come_suspects_first() {
    let (status, text, _) = run(cenote().arg("leaks").arg(fixture("train.json")));
    assert_eq!(status, 0);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} is not in\n{text}"));
    assert!(at("suspects hold 800.00 MiB in 2 sites") < at("Growing: 760.00 MiB"));
    assert!(at("Growing: ") < at("Never freed: ") && at("Never freed: ") < at("Start-up: "));
    assert!(at("Start-up: ") < at("Held by a cache: 58.00 GiB"));
    at("in 8 of 8 parts of\n    the run, 190 of 190 blocks ever allocated there");
    at("the process ran out of memory: live blocks may be in use; see cenote summary");
}

#[test]
fn no_line_is_longer_than_a_hundred_columns() {
    let train = fixture("train.json");
    let train = train.to_str().unwrap();
    for arguments in [
        &["summary", "--explain", train][..],
        &["leaks", train],
        &["frag", train],
        &["env", "--list"],
    ] {
        let (_, text, _) = run(cenote().args(arguments));
        let long = text.lines().find(|line| line.chars().count() > 100 && !line.contains(train));
        assert_eq!(long, None, "{arguments:?}");
    }
}

/// A text without its line breaks.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A copy of a fixture, changed.
fn changed(name: &str, path: &Path, change: impl Fn(&mut serde_json::Value)) {
    let mut json = serde_json::from_str(&fs::read_to_string(fixture(name)).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// What a verb says of a changed fixture.
fn of_changed(verb: &str, name: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("report.json");
    changed(name, &path, change);
    let (status, text, error) = run(cenote().arg(verb).arg(&path));
    assert_eq!((status, error.as_str()), (0, ""));
    text
}

#[test]
fn refusals_of_one_kind_are_told_once() {
    let text = of_changed("summary", "train.json", |json| {
        let events = json["events"].as_array_mut().unwrap();
        let mut refused = events.pop().unwrap();
        refused["state"]["limit_bytes"] = serde_json::Value::Null;
        for n in 0..30u64 {
            refused["at_ns"] = (180_000_000 + n * 10_000_000).into();
            events.push(refused.clone());
        }
    });
    let part = "out of memory 30 times between 180 ms and 470 ms on GPU 0: 5.00 GiB asked; \
                the device has 3.00 GiB free, the pool's largest free block is 2.00 GiB";
    assert!(flat(&text).contains(part), "{text}");
    assert_eq!(text.matches("held 60.00 GiB").count(), 1, "{text}");
}

#[test]
fn a_sample_without_age_and_a_device_without_name() {
    let text = of_changed("summary", "train.json", |json| {
        json["devices"][0]["memory"]["sampled_unix_ns"] = 1_790_000_722_950_000_000u64.into();
        json["devices"][0]["name"] = serde_json::Value::Null;
    });
    assert!(text.contains("\nGPU 0, 140.40 GiB\n  driver used 70.80 GiB = tracked"), "{text}");
}

#[test]
fn memory_that_waits_is_no_fragmentation() {
    let waits = |json: &mut serde_json::Value| {
        let free = 50 << 20;
        json["devices"][0]["fragmentation"] = serde_json::json!({
            "internal_ratio": 0.0, "external_ratio": 1.0, "free_bytes": free, "largest_free_bytes": 0,
            "stranded": { "pinned_by_live_bytes": 0, "waiting_bytes": free, "exported_bytes": 0 },
        });
    };
    for verb in ["summary", "frag"] {
        let text = of_changed(verb, "train.json", waits);
        assert!(text.contains("50.00 MiB free waits for work in flight"), "{text}");
        assert!(!text.contains("100.0%"), "{text}");
    }
}

#[test]
fn a_pool_that_was_off_is_not_shown() {
    let observe = |json: &mut serde_json::Value| {
        json["coverage"]["mode"] = "observe".into();
        json["devices"][0]["pool"]["allocations"] = 0.into();
        json["devices"][0]["pool"]["peak_reserved_bytes"] = 0.into();
    };
    for verb in ["summary", "frag"] {
        let text = of_changed(verb, "clean.json", observe);
        assert!(text.contains("served nothing (mode:observe)"), "{text}");
        assert!(!text.contains("largest free"), "{text}");
    }
}

#[test]
fn a_site_of_python_names_what_is_not_the_interpreter() {
    let python = |json: &mut serde_json::Value| {
        let frames = json["frames"].as_array_mut().unwrap();
        frames[1] =
            serde_json::json!({ "module": "_ctypes.so", "offset": "0x1", "symbol": "call_it" });
        for frame in &mut frames[2..] {
            frame["module"] = "python3.12".into();
            frame["symbol"] = "_PyEval_EvalFrameDefault".into();
        }
    };
    let text = of_changed("summary", "train.json", python);
    assert!(text.contains("called from Python < call_it (_ctypes.so)"), "{text}");
    assert!(!text.contains("_PyEval"), "{text}");
}

#[test]
fn a_threshold_counts_suspects_only() {
    let fail_on =
        |size: &str| run(cenote().args(["leaks", "--fail-on", size]).arg(fixture("train.json"))).0;
    assert_eq!(fail_on("800MiB"), 0);
    assert_eq!(fail_on("799MiB"), 123);
    assert_eq!(fail_on("heaps"), 2);
}

#[test]
fn a_threshold_does_not_pass_where_nothing_is_known() {
    for name in ["recovered.json", "unseen.json"] {
        let (status, _, error) =
            run(cenote().args(["leaks", "--fail-on", "1GiB"]).arg(fixture(name)));
        assert!(status == 123 && error.contains("does not tell what was live at exit"), "{error}");
        for verb in ["leaks", "summary"] {
            let (_, text, _) = run(cenote().args([verb, "--json"]).arg(fixture(name)));
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert!(json[0].as_object().unwrap()["suspects_bytes"].is_null(), "{verb}: {text}");
        }
    }
}

#[test]
fn a_report_that_saw_nothing_or_too_little_never_says_no_leaks() {
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("unseen.json")));
    assert!(text.contains("saw no call") && !text.contains("nothing was live"), "{text}");
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("recovered.json")));
    assert!(text.contains("not from the end") && !text.contains("nothing was live"), "{text}");
    let (_, text, _) = run(cenote().arg("leaks").arg(fixture("clean.json")));
    assert!(text.contains("nothing was live at exit"), "{text}");
}

#[test]
fn fragmentation_has_a_map() {
    let (_, text, _) = run(cenote().arg("frag").arg(fixture("train.json")));
    let map = format!("[{}{}w] 64.00 KiB slots\n", "L".repeat(20), "f".repeat(19));
    assert!(text.contains(&map), "{text}");
    assert!(text.contains("and 1 full segment of 512.00 MiB"), "{text}");
    let (_, all, _) = run(cenote().args(["frag", "--all"]).arg(fixture("train.json")));
    assert!(all.contains(&format!("[{}]", "L".repeat(40))), "{all}");
    let (_, both, _) =
        run(cenote().arg("frag").args([fixture("train.json"), fixture("clean.json")]));
    assert!(both.starts_with(&text) && both[text.len()..].starts_with('\n'), "{both}");
    assert!(
        text.contains("largest request that needs nothing from the driver: 2.00 GiB"),
        "{text}"
    );
}

#[test]
fn every_reader_prints_json() {
    for verb in ["summary", "leaks", "frag"] {
        let (status, text, _) = run(cenote()
            .args([verb, "--json"])
            .arg(fixture("train.json"))
            .arg(fixture("clean.json")));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, json.as_array().unwrap().len()), (0, 2), "{verb}");
        assert!(json[0]["path"].as_str().unwrap().ends_with("train.json"), "{verb}");
    }
    let (_, text, _) = run(cenote().args(["leaks", "--json"]).arg(fixture("train.json")));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json[0]["suspects_bytes"], 800 << 20);
    assert_eq!(json[0]["leaks"][0]["class"], "growing");
    assert_eq!(json[0]["leaks"][0]["stack"][2], "model::step (libmodel.so)");
}

#[test]
fn a_folder_is_its_reports() {
    let folder = TempDir::new().unwrap();
    let (status, _, error) = run(cenote().arg("summary").arg(folder.path()));
    assert!(status == 121 && error.contains("no cenote report in this folder"), "{error}");
    fs::copy(fixture("clean.json"), folder.path().join("a.json")).unwrap();
    fs::write(folder.path().join("package.json"), r#"{"name":"other"}"#).unwrap();
    let (status, text, _) = run(cenote().args(["summary", "--json"]).arg(folder.path()));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, json.as_array().unwrap().len()), (0, 1));
}

#[test]
fn what_is_wrong_with_a_report_is_said_with_a_status() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.json");
    for (text, status, part) in [
        ("", 121, "it is empty"),
        ("not json", 121, "is no cenote report"),
        (r#"{"schema":"cenote.report/1"}"#, 121, "missing field"),
        (r#"{"schema":"cenote.report/2","cenote_version":"9.0.0"}"#, 122, "install cenote 9.0.0"),
    ] {
        fs::write(&path, text).unwrap();
        let (found, out, error) = run(cenote().arg("summary").arg(&path));
        assert_eq!((found, out.as_str()), (status, ""), "{error}");
        assert!(error.starts_with("cenote: ") && error.contains(part), "{error}");
    }
    let (status, _, error) = run(cenote().args(["summary", "/nowhere/x.json"]));
    assert!(status == 121 && error.contains("can't read /nowhere/x.json: No such file"), "{error}");
}

#[test]
fn one_file_that_can_not_be_read_hides_no_other() {
    let folder = TempDir::new().unwrap();
    fs::copy(fixture("clean.json"), folder.path().join("a.json")).unwrap();
    fs::write(folder.path().join("b.json"), r#"{"schema":"cenote.report/1"}"#).unwrap();
    for verb in ["summary", "leaks", "frag"] {
        for json in [None, Some("--json")] {
            let (status, text, error) =
                run(cenote().arg(verb).args(json).arg("/nowhere/x.json").arg(folder.path()));
            assert_eq!(status, 121);
            assert!(
                error.contains("can't read /nowhere/x.json") && error.contains("b.json: "),
                "{error}"
            );
            assert!(text.contains("a.json"), "{text}");
        }
    }
    fs::write(folder.path().join("b.json"), r#"{"schema":"cenote.report/2"}"#).unwrap();
    let (status, _, error) = run(cenote().arg("summary").arg(folder.path()));
    assert!(
        status == 122 && error.contains("install the version of cenote that wrote it"),
        "{error}"
    );
}

#[test]
fn a_job_without_its_dashes() {
    let (status, _, error) =
        run(cenote().args(["run", "-c", "limit:1GiB", "python", "x.py", "-v"]));
    assert_eq!(status, 2);
    assert!(error.ends_with("cenote run -c limit:1GiB -- python x.py -v\n"), "{error}");
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [&["sumary"][..], &["summary"], &["run"], &["run", "--"], &[]] {
        assert_eq!(run(cenote().args(arguments)).0, 2, "{arguments:?}");
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let escapes =
        |command: &mut Command| run(command.arg(fixture("train.json"))).1.contains('\x1b');
    assert!(!escapes(&mut cenote()), "into a pipe");
    assert!(escapes(cenote().env("CLICOLOR_FORCE", "1")));
    assert!(!escapes(cenote().env("NO_COLOR", "1")));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = cenote();
    command.arg("summary");
    for _ in 0..200 {
        command.arg(fixture("train.json"));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8_lossy(&output.stderr)),
        (Some(0), "".into())
    );
}

// --- run ---

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

// --- pages ---

/// The page of a process that held 3 MiB and is gone, which was to write `output`.
fn page_of_the_dead(folder: &Path, pid: u32, output: &Path) -> PathBuf {
    let file = page_of(folder, pid, output);
    file.path.clone().unwrap()
}

fn page_of(folder: &Path, pid: u32, output: &Path) -> PageFile {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let started = since.as_nanos() as u64 - 5_000_000_000;
    let file = page::create(folder, pid, started).unwrap();
    let page = file.page;
    page.pid.store(pid, Relaxed);
    page.started_unix_ns.store(started, Relaxed);
    page.updated_unix_ns.store(started + 5_000_000_000, Relaxed);
    page.host.set(b"node1");
    page.executable.set(b"/home/me/train");
    page.command.set(b"./train\0--fast\0");
    page.output.set(output.to_str().unwrap().as_bytes());
    let book = page.books.device(0);
    book.used.store(1, Relaxed);
    book.total_bytes.store(80 << 30, Relaxed);
    book.pool.reserved.set(4 << 20);
    let sites = Sites::of(&page.books);
    sites.add(sites.intern(&[], Kind::Pooled, 0), 3 << 20);
    page.books.add(Kind::Pooled, 0, 3 << 20);
    page.magic.store(page::MAGIC, Release);
    file
}

#[test]
fn a_killed_process_is_recovered() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("reports/train.json");
    let page = page_of_the_dead(folder.path(), 4_000_001, &output);
    let (status, out, error) =
        run(cenote().arg("recover").env("CENOTE_RUNTIME_DIR", folder.path()));
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains(&format!("next: cenote summary {}", output.display())), "{out}");
    assert!(!page.exists());
    let (_, text, _) = run(cenote().arg(&output));
    for part in [
        "./train --fast",
        "recovered, incomplete",
        "5.0 s from",
        "live 3.00 MiB",
        "ended without writing its report",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn what_a_process_told_before_it_was_killed_is_kept() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("train.json");
    let file = page_of(folder.path(), 4_000_001, &output);
    let started = file.page.started_unix_ns.load(Relaxed);
    file.page.report_path.set(output.to_str().unwrap().as_bytes());
    changed("train.json", &output, |json| {
        json["reason"] = "out_of_memory".into();
        json["process"]["pid"] = 4_000_001.into();
        json["process"]["started_unix_ns"] = started.into();
        json["process"]["duration_ns"] = 3_000_000_000u64.into();
    });
    let page = file.path.clone().unwrap();
    drop(file);
    let (status, _, error) = run(cenote().arg("recover").arg(&page));
    assert_eq!((status, error.as_str()), (0, ""));
    let (_, text, _) = run(cenote().arg(&output));
    for part in [
        "rank 3 of 8",
        "recovered, incomplete",
        "GPU 0  NVIDIA H200, 80.00 GiB",
        "reserved 4.00 MiB = live",
        "out of memory after 10 m 00 s on GPU 0: 5.00 GiB asked",
        "held 60.00 GiB in 130 blocks: at::native::empty (libtorch_cuda.so)",
        "called from at::native::empty (libtorch_cuda.so)",
        "report that the process wrote when an\n    allocation was refused, 3.0 s after its first CUDA call",
        "an example of a remark",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(text.contains("pid 4000001 on node1"), "{text}");
}

#[test]
fn a_report_of_another_process_is_not_mixed_in() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("train.json");
    let file = page_of(folder.path(), 4_000_001, &output);
    fs::copy(fixture("train.json"), folder.path().join("other.json")).unwrap();
    file.page.report_path.set(folder.path().join("other.json").to_str().unwrap().as_bytes());
    let page = file.path.clone().unwrap();
    drop(file);
    let other = folder.path().join("mine.json");
    assert_eq!(run(cenote().arg("recover").arg(&page).arg("-o").arg(&other)).0, 0);
    let (_, text, _) = run(cenote().arg(&other));
    assert!(!text.contains("out of memory"), "{text}");
}

#[test]
fn of_many_writers_at_once_each_gets_a_name() {
    const WRITERS: u32 = 12;
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("report.json");
    fs::write(&output, "of an earlier run").unwrap();
    let old = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&output).unwrap().set_modified(old).unwrap();
    let pages = (0..WRITERS).map(|n| page_of_the_dead(folder.path(), 4_000_000 + n, &output));
    let pages: Vec<_> = pages.collect();
    let recover = |page| cenote().arg("recover").arg(page).stdout(Stdio::null()).spawn().unwrap();
    let children: Vec<_> = pages.iter().map(recover).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let (_, text, _) = run(cenote().args(["summary", "--json"]).arg(folder.path()));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut pids: Vec<_> =
        json.as_array().unwrap().iter().map(|r| r["process"]["pid"].as_u64()).collect();
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), WRITERS as usize);
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        WRITERS as usize,
        "nothing else is left"
    );
}

#[test]
fn a_page_is_found_by_process_id_and_written_elsewhere() {
    let folder = TempDir::new().unwrap();
    page_of_the_dead(folder.path(), 4_000_001, &folder.path().join("a.json"));
    page_of_the_dead(folder.path(), 4_000_002, &folder.path().join("b.json"));
    let elsewhere = folder.path().join("elsewhere.json");
    let recover = |pid: &str| {
        run(cenote()
            .args(["recover", pid, "--json", "-o"])
            .arg(&elsewhere)
            .env("CENOTE_RUNTIME_DIR", folder.path()))
    };
    let (status, out, _) = recover("4000002");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &json[0]["state"]), (0, &"recovered".into()));
    assert!(elsewhere.exists() && !folder.path().join("b.json").exists());
    let run_folder = folder.path().join("cenote-run-1-x");
    page_of_the_dead(&run_folder, 4_000_004, &folder.path().join("d.json"));
    let of_a_run = run(cenote()
        .args(["recover", "4000004"])
        .env("CENOTE_RUNTIME_DIR", folder.path())
        .env("TMPDIR", folder.path()));
    assert_eq!(of_a_run.0, 0, "{}", of_a_run.2);
    assert!(folder.path().join("d.json").exists());
    let (status, _, error) = recover("4000003");
    assert!(status == 121 && error.contains("no page of process 4000003"), "{error}");
}

#[test]
fn an_error_tells_its_cause_once() {
    let folder = TempDir::new().unwrap();
    let page = page_of_the_dead(folder.path(), 4_000_001, &folder.path().join("a.json"));
    fs::write(folder.path().join("file"), "").unwrap();
    let output = folder.path().join("file/b.json");
    let (status, _, error) = run(cenote().arg("recover").arg(&page).arg("-o").arg(&output));
    assert_eq!((status, error.matches("os error").count()), (1, 1), "{error}");
    assert!(page.exists(), "for another try");
}

#[test]
fn a_process_that_runs_keeps_its_page() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("train.json");
    let alive = page_of(folder.path(), std::process::id(), &output);
    let path = alive.path.clone().unwrap();
    let (status, _, error) = run(cenote().arg("recover").arg(&path));
    assert!(status == 121 && error.contains("still runs"), "{error}");
    let (status, out, _) = run(cenote().arg("recover").arg(folder.path()));
    assert!(status == 0 && out.contains("still runs"), "{out}");
    let (status, out, _) = run(cenote().args(["recover", "--live"]).arg(&path));
    assert!(status == 0 && out.contains("live 3.00 MiB"), "{out}");
    assert!(out.contains("still running, numbers as of now\n") && !out.contains("ended"), "{out}");
    assert!(path.exists() && !output.exists());
}

#[test]
fn a_process_that_runs_is_asked_for_a_report() {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("train.json");
    let file = page_of(folder.path(), std::process::id(), &output);
    let page = file.page;
    let answer = output.clone();
    let process = std::thread::spawn(move || {
        while page.requested.load(Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        page.served.store(1, Relaxed);
        changed("clean.json", &answer, |json| json["written_unix_ns"] = u64::MAX.into());
        page.report_path.set(answer.to_str().unwrap().as_bytes());
    });
    let ask = || run(cenote().args(["recover", "--request"]).arg(file.path.as_ref().unwrap()));
    let (status, out, error) = ask();
    process.join().unwrap();
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains(&format!(": {0}\nnext: cenote summary {0}\n", output.display())), "{out}");
    let (status, _, error) = ask();
    assert!(status == 1 && error.contains("wrote no report within 2 s"), "{error}");
}

#[test]
fn nothing_to_recover() {
    let folder = TempDir::new().unwrap();
    let (status, out, _) = run(cenote().arg("recover").env("CENOTE_RUNTIME_DIR", folder.path()));
    assert!(status == 0 && out.contains("nothing to recover"), "{out}");
    let (status, out, _) = run(cenote().arg("recover").arg(folder.path()));
    let folder_named = out.contains(&format!("no pages in {}\n", folder.path().display()));
    assert!(status == 0 && folder_named, "{out}");
    let text = folder.path().join("1-1.page");
    fs::write(&text, "hello").unwrap();
    let (status, _, error) = run(cenote().arg("recover").arg(&text));
    assert!(status == 121 && error.contains("not a live page of this version"), "{error}");
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

// --- doctor, env, schema ---

/// The doctor on a machine with a driver, or what looks like one.
fn doctor(folder: &TempDir, program: &str) -> (i32, String) {
    let driver = folder.path().join("driver");
    fs::create_dir_all(&driver).unwrap();
    fs::write(driver.join("libcuda.so.1"), "").unwrap();
    let mut command = cenote();
    command
        .args(["doctor", "--library", &harmless_library(), "--", program])
        .env("LD_LIBRARY_PATH", driver);
    let (status, text, _) = run(&mut command);
    (status, text)
}

#[test]
fn the_doctor_finds_a_program_well() {
    let folder = TempDir::new().unwrap();
    let (status, text) = doctor(&folder, "sh");
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("driver/libcuda.so.1") && text.contains("it can be preloaded"), "{text}");
}

#[test]
fn the_doctor_follows_scripts() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("train");
    fs::write(&script, "#!/usr/bin/env -S sh\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, text) = doctor(&folder, script.to_str().unwrap());
    assert!(status == 0 && text.contains("is a script, run by /usr/bin/env -S sh"), "{text}");
    fs::write(&script, "#!/nowhere/python\n").unwrap();
    let (status, text) = doctor(&folder, script.to_str().unwrap());
    assert!(status == 1 && text.contains("can't start /nowhere/python"), "{text}");
}

#[test]
fn the_doctor_knows_what_can_not_be_preloaded() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    fs::copy(env!("CARGO_BIN_EXE_cenote"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let (status, text) = doctor(&folder, program.to_str().unwrap());
    assert!(status == 1 && text.contains("setuid"), "{text}");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    forget_the_loader(&program);
    let (status, text) = doctor(&folder, program.to_str().unwrap());
    assert!(status == 1 && text.contains("linked statically"), "{text}");
    let (status, text) = doctor(&folder, "no-such-program");
    assert!(status == 1 && text.contains("can't start no-such-program"), "{text}");
}

/// Makes a dynamic program look like a static one.
fn forget_the_loader(program: &Path) {
    const INTERPRETER: u32 = 3;
    let mut elf = fs::read(program).unwrap();
    let headers = u64::from_le_bytes(elf[0x20..0x28].try_into().unwrap()) as usize;
    let size = u16::from_le_bytes(elf[0x36..0x38].try_into().unwrap()) as usize;
    let count = u16::from_le_bytes(elf[0x38..0x3a].try_into().unwrap()) as usize;
    for header in (0..count).map(|n| headers + n * size) {
        if elf[header..header + 4] == INTERPRETER.to_le_bytes() {
            elf[header..header + 4].fill(0);
        }
    }
    fs::write(program, elf).unwrap();
}

#[test]
fn the_doctor_names_what_surrounds_a_job() {
    let mut command = cenote();
    command.args(["doctor", "--json", "--library", "/nowhere/lib.so"]);
    command.env("CENOTE_CONF", "limti:1").env("PYTORCH_CUDA_ALLOC_CONF", "backend:native");
    let (status, text, _) = run(&mut command);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &json[0]["level"]), (1, &"fail".into()));
    assert!(
        text.contains("did you mean") && text.contains("PYTORCH_CUDA_ALLOC_CONF=backend:native"),
        "{text}"
    );
}

#[test]
fn env_prints_what_run_would_set() {
    let library = harmless_library();
    let (status, text, _) = run(cenote().args([
        "env",
        "--library",
        &library,
        "-c",
        "limit:1GiB",
        "-o",
        "/x y/%p.json",
    ]));
    assert_eq!(status, 0);
    let library = fs::canonicalize(library).unwrap();
    let expected = format!(
        "export LD_PRELOAD={}\nexport CENOTE_CONF=limit:1GiB\nexport CENOTE_OUTPUT='/x y/%p.json'\n",
        library.display()
    );
    assert_eq!(text, expected);
}

#[test]
fn env_lists_every_setting() {
    let (_, text, _) = run(cenote().args(["env", "--list"]));
    let names = cenote::conf::KEYS.iter().map(|key| key.name);
    for name in names.chain(cenote::conf::VARIABLES.iter().map(|variable| variable.name)) {
        assert!(text.contains(name), "{name}");
    }
    let (_, text, _) = run(cenote().args(["env", "--list", "--json"]));
    assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["keys"].is_array());
}

#[test]
fn the_schema_is_the_committed_one() {
    let (status, text, _) = run(cenote().arg("schema"));
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/report.v1.json");
    assert_eq!(status, 0);
    assert!(text == fs::read_to_string(committed).unwrap());
}
