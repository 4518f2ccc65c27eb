//! What the tests of the command line share: the program in a clean environment, jobs, fixtures and pages.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{SystemTime, UNIX_EPOCH};

use cenote::ledger::{Kind, Sites};
use cenote::page::{self, PageFile};
use tempfile::TempDir;

/// The program, in an environment without settings.
pub fn cenote() -> Command {
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

pub fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A library that may be preloaded into anything: libc itself.
pub fn harmless_library() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let libc =
        maps.split_whitespace().find(|word| word.contains("/libc.so") || word.contains("/libc-2."));
    libc.unwrap().to_owned()
}

/// `cenote run --library LIBC OPTIONS -- sh -c SCRIPT`
pub fn job(options: &[&str], script: &str) -> Command {
    let mut command = cenote();
    command
        .args(["run", "--library", &harmless_library()])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command
}

/// A text without its line breaks.
pub fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A copy of a fixture, changed.
pub fn changed(name: &str, path: &Path, change: impl Fn(&mut serde_json::Value)) {
    let mut json = serde_json::from_str(&fs::read_to_string(fixture(name)).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// What a verb says of a changed fixture.
pub fn of_changed(verb: &str, name: &str, change: impl Fn(&mut serde_json::Value)) -> String {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("report.json");
    changed(name, &path, change);
    let (status, text, error) = run(cenote().arg(verb).arg(&path));
    assert_eq!((status, error.as_str()), (0, ""));
    text
}

/// The page of a process that held 3 MiB and is gone, which was to write `output`.
pub fn page_of_the_dead(folder: &Path, pid: u32, output: &Path) -> PathBuf {
    let file = page_of(folder, pid, output);
    file.path.clone().unwrap()
}

pub fn page_of(folder: &Path, pid: u32, output: &Path) -> PageFile {
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

/// The doctor on a machine with a driver, or what looks like one.
pub fn doctor(folder: &TempDir, program: &str) -> (i32, String) {
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
