//! `cenote recover`: the pages of processes that were killed, and of those that still run.

mod cli;

use std::fs;
use std::process::Stdio;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use cli::{cenote, changed, fixture, page_of, page_of_the_dead, run};
use tempfile::TempDir;

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
