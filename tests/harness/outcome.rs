//! What a run left: status, answers, reports, the stand-in driver's own records.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use cenote::report::{Device, Pool, Report};

use super::Run;
use super::checks::read;

/// What a run left.
#[derive(Debug)]
pub struct Outcome {
    /// How the program ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// Its process id.
    pub pid: u32,
    /// From its start to its end.
    pub elapsed: Duration,
    /// Every report in the folder, by file name. With several processes there are several.
    pub reports: Vec<Report>,
    /// The files that they came from.
    pub files: Vec<PathBuf>,
    /// What the stand-in driver complained about.
    pub violations: String,
    /// Calls that reached the stand-in driver, by name; of the process that ended last.
    pub calls: BTreeMap<String, u64>,
    run: Run,
}

impl Outcome {
    pub(super) fn new(
        run: &Run,
        status: ExitStatus,
        out: Vec<u8>,
        err: Vec<u8>,
        pid: u32,
        elapsed: Duration,
    ) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let folder = run.folder();
        let calls = fs::read_to_string(folder.join("calls")).unwrap_or_default();
        let mut outcome = Outcome {
            status,
            stdout: text(out),
            stderr: text(err),
            pid,
            elapsed,
            reports: Vec::new(),
            files: Vec::new(),
            violations: fs::read_to_string(folder.join("violations")).unwrap_or_default(),
            calls: calls.lines().filter_map(name_and_number).collect(),
            run: run.clone(),
        };
        outcome.read_reports();
        assert!(
            run.violations_expected || outcome.violations.is_empty(),
            "the driver's rules were broken:\n{}\n{outcome:#?}",
            outcome.violations
        );
        outcome
    }

    /// The program ended with status 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.ended_with(0)
    }

    /// The program ended with this exit status.
    #[track_caller]
    pub fn ended_with(self, code: i32) -> Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "{:?}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The program was ended by this signal.
    #[track_caller]
    pub fn killed_by(self, signal: i32) -> Self {
        assert_eq!(
            self.status.signal(),
            Some(signal),
            "{:?}\n{}\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The number that the program printed after `name`.
    #[track_caller]
    pub fn value(&self, name: &str) -> u64 {
        self.values(name)
            .pop()
            .unwrap_or_else(|| panic!("no {name:?} in:\n{}\n{}", self.stdout, self.stderr))
    }

    /// Every number that the program printed after `name`, in order.
    pub fn values(&self, name: &str) -> Vec<u64> {
        let lines = self.stdout.lines().filter_map(name_and_number);
        lines.filter(|(found, _)| found == name).map(|(_, number)| number).collect()
    }

    /// Calls of one function that reached the driver.
    pub fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    /// The only report.
    #[track_caller]
    pub fn report(&self) -> &Report {
        match &self.reports[..] {
            [report] => report,
            others => panic!(
                "{} reports: {:?}\n{}\n{}",
                others.len(),
                self.files,
                self.stdout,
                self.stderr
            ),
        }
    }

    /// The report of one process.
    #[track_caller]
    pub fn report_of(&self, pid: u64) -> &Report {
        let mut reports = self.reports.iter().filter(|report| u64::from(report.process.pid) == pid);
        reports
            .next()
            .unwrap_or_else(|| panic!("no report of {pid}: {:?}\n{}", self.files, self.stderr))
    }

    /// One device of the only report.
    #[track_caller]
    pub fn device(&self, ordinal: u32) -> &Device {
        let mut devices = self.report().devices.iter().filter(|device| device.ordinal == ordinal);
        devices
            .next()
            .unwrap_or_else(|| panic!("no device {ordinal} in {:?}", self.report().devices))
    }

    /// The pool of the first device.
    #[track_caller]
    pub fn pool(&self) -> &Pool {
        &self.device(0).pool
    }

    /// Everything that lies in a folder of the run, recursively, as paths below it.
    pub fn left_in(&self, folder: &str) -> Vec<PathBuf> {
        let root = self.run.folder().join(folder);
        list(&root).iter().map(|file| file.strip_prefix(&root).unwrap().to_owned()).collect()
    }

    /// Makes the reports of processes that left only their page, as a user would, and reads all reports again.
    #[track_caller]
    pub fn recover(mut self) -> Self {
        let answer = self.run.command_line(&["recover"]).output().unwrap();
        assert!(
            answer.status.success(),
            "cenote recover: {}",
            String::from_utf8_lossy(&answer.stderr)
        );
        self.read_reports();
        self
    }

    fn read_reports(&mut self) {
        (self.files, self.reports) = reports_in(&self.run).into_iter().unzip();
    }

    /// A folder of the run.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.run.folder().join(name)
    }
}

fn name_and_number(line: &str) -> Option<(String, u64)> {
    let (name, number) = line.rsplit_once([' ', '\t', '='])?;
    Some((name.trim().to_owned(), number.trim().parse().ok()?))
}

/// The reports in the folder of a run, with their files.
pub(super) fn reports_in(run: &Run) -> Vec<(PathBuf, Report)> {
    let mut files = list(&run.folder().join("out"));
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.into_iter().map(|file| (file.clone(), read(&file, run.sums_hold))).collect()
}

/// The files below a folder, sorted.
fn list(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if entry.file_type().is_ok_and(|kind| kind.is_dir()) => files.extend(list(&path)),
            path => files.push(path),
        }
    }
    files.sort();
    files
}
