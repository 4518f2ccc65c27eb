//! Messages on stderr, for those who set `CENOTE_LOG`; and the one warning about a wrong configuration.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines `cenote: LEVEL message key=value`, each in one write.
struct Lines(Level);

/// Starts the log at this level; without one nothing is installed and events cost a comparison.
pub(super) fn start(level: Option<Level>) {
    if let Some(level) = level {
        // Only the first thread that wakes cenote up succeeds, which is what is wanted.
        let _ = tracing::subscriber::set_global_default(Lines(level));
    }
}

/// Says once that something in the configuration is wrong. Whoever set it asked for cenote; `cenote run` says it itself.
pub(super) fn warn_once(problem: &str, said_already: bool) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !said_already && !SAID.swap(true, Relaxed) {
        write_line(&format!("cenote: {problem}\n"));
    }
}

/// Says something that the user has asked for and does not get.
pub(super) fn say(text: &str) {
    write_line(&format!("cenote: {text}\n"));
}

fn write_line(line: &str) {
    // SAFETY: the buffer is as long as is said. A failure has nobody to go to.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0 && metadata.target().starts_with("cenote")
    }

    fn event(&self, event: &Event<'_>) {
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let mut line = Line(format!("cenote: {level}"));
        event.record(&mut line);
        line.0.push('\n');
        write_line(&line.0);
    }

    // There are no spans in cenote.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
