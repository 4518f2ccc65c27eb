//! `cenote recover`: the reports of processes that were killed, from the pages that they left.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::bail;
use cenote::page::{self, PageFile, State};
use cenote::report::write;
use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::exit::{Failure, Outcome, UNREADABLE};
use crate::recovered;
use crate::render::shell;
use crate::request;
use crate::summary;

/// Make reports of processes that ended without writing one.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A page, a process id, or a folder of pages; else the folder where processes keep theirs.
    #[arg(value_name = "PATH|PID")]
    what: Vec<PathBuf>,
    /// Write the report to this file; for one process.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Also show the numbers of processes that still run. Nothing is written or removed.
    #[arg(long)]
    live: bool,
    /// Ask a process that still runs to write its report now.
    #[arg(long, requires = "what", conflicts_with_all = ["live", "output"])]
    request: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn recover(options: &Options) -> anyhow::Result<Outcome> {
    let named = !options.what.is_empty();
    let pages = find(options)?;
    if options.output.is_some() && pages.len() != 1 {
        bail!("-o takes the report of one process, and there are {} pages", pages.len());
    }
    let mut entries = Vec::new();
    let mut text = String::new();
    for path in &pages {
        let (entry, line) = recover_page(options, path, named)?;
        entries.push(entry);
        text.push_str(&line);
    }
    if options.json {
        return Outcome::json(&entries);
    }
    if pages.is_empty() {
        let folders = options.what.iter().map(|folder| shell(folder)).collect::<Vec<_>>();
        let folders = if named { folders.join(", ") } else { shell(&runtime_dir()) };
        text = format!("nothing to recover: no pages in {folders}\n");
    }
    Ok(Outcome::page(&text))
}

/// One page: what happened to it, and the line about it.
fn recover_page(options: &Options, path: &Path, named: bool) -> anyhow::Result<(Value, String)> {
    let file = match page::open(path) {
        Ok(file) => file,
        Err(error) if named => return Err(Failure::new(UNREADABLE, error).into()),
        Err(error) => {
            return Ok((json!({ "page": path, "error": error.to_string() }), format!("{error}\n")));
        }
    };
    let pid = file.page.pid.load(Relaxed);
    if file.page.state.load(Acquire) == State::Reported as u32 {
        let report = file.page.report_path.get_string();
        if !file.owner_is_alive() {
            fs::remove_file(path)?;
        }
        let line = format!("process {pid} wrote its report: {}\n", shell(Path::new(&report)));
        return Ok((
            json!({ "page": path, "pid": pid, "state": "reported", "report": report }),
            line,
        ));
    }
    if file.owner_is_alive() {
        return of_the_living(options, path, &file, pid, named);
    }
    if options.request {
        bail!(
            "process {pid} does not run any more; cenote recover without --request makes its report"
        );
    }
    let report = recovered::report(file.page);
    let written = recovered::write(
        file.page,
        &report,
        file.page.started_unix_ns.load(Relaxed),
        options.output.as_deref(),
    )?;
    fs::remove_file(path)?;
    let line = format!("process {pid}: {0}\nnext: cenote summary {0}\n", shell(&written));
    Ok((json!({ "page": path, "pid": pid, "state": "recovered", "report": written }), line))
}

fn of_the_living(
    options: &Options,
    path: &Path,
    file: &PageFile,
    pid: u32,
    named: bool,
) -> anyhow::Result<(Value, String)> {
    if options.request {
        let report = request::ask(file.page)?;
        let line = format!("process {pid}: {0}\nnext: cenote summary {0}\n", shell(&report));
        return Ok((
            json!({ "page": path, "pid": pid, "state": "running", "report": report }),
            line,
        ));
    }
    if options.live {
        let report = recovered::numbers(file.page);
        let text = summary::page(path, &report, true);
        return Ok((
            json!({ "page": path, "pid": pid, "state": "running", "numbers": report }),
            text,
        ));
    }
    if named && !path_is_folder(options) {
        let message = format!(
            "process {pid} still runs and will write its report itself; --live shows its numbers now"
        );
        return Err(Failure::new(UNREADABLE, message).into());
    }
    Ok((
        json!({ "page": path, "pid": pid, "state": "running" }),
        format!("process {pid} still runs\n"),
    ))
}

fn path_is_folder(options: &Options) -> bool {
    options.what.iter().any(|path| path.is_dir())
}

/// The pages that are meant.
fn find(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    if options.what.is_empty() {
        return Ok(pages_in(&runtime_dir(), |_| true));
    }
    let mut pages = Vec::new();
    for what in &options.what {
        let pid = what.to_str().and_then(|text| text.parse::<u32>().ok());
        match pid {
            _ if what.is_dir() => pages.extend(pages_in(what, |_| true)),
            Some(pid) if !what.exists() => {
                let start = format!("{pid}-");
                let folders = run_folders().into_iter().chain([runtime_dir()]);
                let of_pid =
                    folders.flat_map(|folder| pages_in(&folder, |name| name.starts_with(&start)));
                let of_pid: Vec<_> = of_pid.collect();
                if of_pid.is_empty() {
                    let folder = runtime_dir();
                    let message = format!("no page of process {pid} in {}", shell(&folder));
                    return Err(Failure::new(UNREADABLE, message).into());
                }
                pages.extend(of_pid);
            }
            _ => pages.push(what.clone()),
        }
    }
    Ok(pages)
}

fn pages_in(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_page = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.ends_with(".page") && wanted(name)
    };
    let mut pages: Vec<_> = paths.filter(is_page).collect();
    pages.sort();
    pages
}

/// Where the pages of our own jobs under `cenote run` are. Anybody may make such folders, and a page says which file is
/// written.
fn run_folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_ours = |folder: &PathBuf| {
        fs::symlink_metadata(folder)
            .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
    };
    folders.filter(|folder| write::run_started_unix_ns(folder).is_some()).filter(is_ours).collect()
}

fn runtime_dir() -> PathBuf {
    page::runtime_dir(std::env::var_os("CENOTE_RUNTIME_DIR"), std::env::var_os("XDG_RUNTIME_DIR"))
}
