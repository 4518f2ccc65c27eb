//! The report of a process that left none, from its mapped page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use cenote::conf::KEYS;
use cenote::page::PageLayout;
use cenote::report::write::{self, WriteError};
use cenote::report::{self, Coverage, Doors, Note, Process, Reason, Report, Snapshot};

use crate::earlier;

/// Makes the report. What only the process itself knew is from the report that it wrote before, or empty: events, coverage,
/// its rank. Live blocks one by one and segments are lost.
pub(crate) fn report(page: &PageLayout) -> Report {
    let mut report = of_page(page, vec![ended()]);
    if let Some(earlier) = earlier::of(page) {
        earlier::add(&mut report, earlier);
    }
    report
}

/// The numbers of a process that still runs.
pub(crate) fn numbers(page: &PageLayout) -> Report {
    of_page(page, Vec::new())
}

fn ended() -> Note {
    Note {
        code: "recovered".to_owned(),
        text:
            "the process ended without writing its report (killed, crashed, or replaced by exec); \
               counters and sites are from its mapped page, and what was live at exit is not known"
                .to_owned(),
        count: 1,
    }
}

fn of_page(page: &PageLayout, notes: Vec<Note>) -> Report {
    let configuration = configuration(&page.configuration.get_string());
    report::build(&Snapshot {
        books: &page.books,
        reason: Reason::Recovered,
        complete: false,
        process: process(page),
        coverage: Coverage {
            mode: configuration.get("mode").cloned().unwrap_or_default(),
            driver: None,
            driver_version: Some(page.driver_version.load(Relaxed)).filter(|&version| version > 0),
            doors: Doors::default(),
            calls: BTreeMap::new(),
            missing: Vec::new(),
            other_preloads: Vec::new(),
            order: "unknown".to_owned(),
        },
        configuration,
        events: (Vec::new(), 0),
        notes,
        live: None,
        freed_during_exit: Vec::new(),
        segments: Vec::new(),
        devices: Vec::new(),
    })
}

/// The settings that were given, over the defaults.
fn configuration(given: &str) -> BTreeMap<String, String> {
    let defaults = KEYS.iter().map(|key| (key.name.to_owned(), key.default.to_owned()));
    let mut settings: BTreeMap<_, _> = defaults.collect();
    for (name, value) in given.split(',').filter_map(|pair| pair.split_once(':')) {
        if let Some(setting) = settings.get_mut(name.trim()) {
            value.trim().clone_into(setting);
        }
    }
    settings
}

fn process(page: &PageLayout) -> Process {
    let started_unix_ns = page.started_unix_ns.load(Relaxed);
    let command = page.command.get();
    let words =
        command.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut command: Vec<String> = words.collect();
    // Each argument ends with a zero byte, so the last one is followed by an empty word.
    command.pop_if(|word| word.is_empty());
    Process {
        pid: page.pid.load(Relaxed),
        parent_pid: page.parent_pid.load(Relaxed),
        executable: page.executable.get_string(),
        command,
        host: page.host.get_string(),
        started_unix_ns,
        duration_ns: page.updated_unix_ns.load(Relaxed).saturating_sub(started_unix_ns),
        rank: None,
        environment: BTreeMap::new(),
    }
}

/// Writes it where the process would have: over a report that it wrote earlier, else to its output. `elsewhere` overrules
/// both.
pub(crate) fn write(
    page: &PageLayout,
    report: &Report,
    run_started_unix_ns: u64,
    elsewhere: Option<&Path>,
) -> Result<PathBuf, WriteError> {
    if let Some(path) = elsewhere {
        return write::write(report, path, u64::MAX, None);
    }
    let earlier = Some(page.report_path.get_string()).filter(|path| !path.is_empty());
    let output = Some(page.output.get_string()).filter(|path| !path.is_empty());
    let output = output.unwrap_or_else(|| format!("cenote-{}.json", report.process.pid));
    write::write(report, Path::new(&output), run_started_unix_ns, earlier.as_deref().map(Path::new))
}
