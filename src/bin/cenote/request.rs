//! Asking a running process for a report, through its page.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use cenote::page::PageLayout;
use cenote::report;

use crate::run::now_unix_ns;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks, and waits for the report.
pub(crate) fn ask(page: &PageLayout) -> anyhow::Result<PathBuf> {
    let asked_unix_ns = now_unix_ns();
    let end = Instant::now() + PATIENCE;
    let request = page.requested.fetch_add(1, AcqRel) + 1;
    while Instant::now() < end {
        sleep(Duration::from_millis(20));
        let path = PathBuf::from(page.report_path.get_string());
        // The process takes the request before it makes the report.
        let is_new =
            || report::read(&path).is_ok_and(|report| report.written_unix_ns >= asked_unix_ns);
        if page.served.load(Acquire) >= request && is_new() {
            return Ok(path);
        }
    }
    bail!(
        "process {} wrote no report within 2 s: it may be stopped, or can't write",
        page.pid.load(Relaxed)
    )
}
