//! A program that runs: waiting for its lines and its end, within the time limit.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use cenote::report::Report;

use super::{Outcome, Run, outcome};

/// A program that does not end by itself is killed, and the test fails.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A program that runs.
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    pub(super) outputs: [PathBuf; 2],
    pub(super) started: Instant,
    pub(super) run: Run,
}

impl Running {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the program has printed `line`.
    pub fn wait_for(&mut self, line: &str) {
        while !fs::read_to_string(&self.outputs[0])
            .unwrap_or_default()
            .lines()
            .any(|printed| printed == line)
        {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "ended ({ended:?}) before it printed {line:?}:\n{}",
                self.printed()
            );
            self.check_time();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal to the program alone.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory requirements, and the child was not waited for, so the id is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Lets the command line recover what it finds, while the program runs.
    #[track_caller]
    pub fn recover(&self) {
        let answer = self.run.command_line(&["recover"]).output().unwrap();
        assert!(
            answer.status.success(),
            "cenote recover: {}",
            String::from_utf8_lossy(&answer.stderr)
        );
    }

    /// The reports that there are, while the program runs.
    pub fn reports(&self) -> Vec<Report> {
        outcome::reports_in(&self.run).into_iter().map(|(_, report)| report).collect()
    }

    /// Waits for its end and reads what it left.
    pub fn wait(mut self) -> Outcome {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let [stdout, stderr] = self.outputs.each_ref().map(|file| fs::read(file).unwrap());
                return Outcome::new(
                    &self.run,
                    status,
                    stdout,
                    stderr,
                    self.child.id(),
                    self.started.elapsed(),
                );
            }
            self.check_time();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn check_time(&mut self) {
        if self.started.elapsed() > TIME_LIMIT {
            // SAFETY: kill has no memory requirements; the group was made for this child and nobody else.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
            let _ = self.child.wait();
            panic!("still running after {TIME_LIMIT:?}, killed:\n{}", self.printed());
        }
    }

    fn printed(&self) -> String {
        self.outputs.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default()).join("\n")
    }
}
