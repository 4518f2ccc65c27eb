//! The exit statuses of the command line. `cenote run` ends with the status of its job otherwise.

use crate::render::wrap;

/// The job could not be started.
pub(crate) const CANNOT_START: u8 = 120;
/// A report or trace could not be read.
pub(crate) const UNREADABLE: u8 = 121;
/// A report or trace has a format that this version does not read.
pub(crate) const OTHER_VERSION: u8 = 122;
/// `cenote leaks --fail-on`: there are more suspects than allowed, or a report does not tell.
pub(crate) const THRESHOLD: u8 = 123;
/// `cenote doctor` found something that keeps cenote from working, or a trace did not fit; also every other failure.
pub(crate) const FAILED: u8 = 1;

/// For the end of the help text.
pub(crate) const TABLE: &str = "\
Exit status:
  run    the job's own, or 128 + the signal that ended it
  1      a failure, cenote doctor found one, or a trace did not fit
  2      wrong usage
  120    the job could not be started
  121    a report or trace could not be read
  122    a report or trace has a format that this version does not read
  123    cenote leaks --fail-on: more suspects than allowed, or not known";

/// A failure with a status of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) status: u8,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: u8, message: impl std::fmt::Display) -> Self {
        Failure { status, message: message.to_string() }
    }
}

/// An error with its causes. Many of ours name their cause themselves.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What a verb has to say on stdout, and its status.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) text: String,
    pub(crate) status: u8,
}

impl Outcome {
    /// A text for people, and success.
    pub(crate) fn page(text: &str) -> Self {
        Outcome::of(wrap(text))
    }

    /// A text as it is, and success.
    pub(crate) fn of(text: String) -> Self {
        Outcome { text, status: 0 }
    }

    /// A JSON document, and success.
    pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<Self> {
        Ok(Outcome::of(serde_json::to_string_pretty(value)? + "\n"))
    }
}
