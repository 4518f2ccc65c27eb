//! `cenote summary`, and what holds for every reader: JSON, folders, files that can't be read, usage and colours.

mod cli;

use std::fs;
use std::process::{Command, Stdio};

use cli::{cenote, fixture, flat, of_changed, run};
use tempfile::TempDir;

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
