//! How far a long verb is, on a terminal alone.

use std::io::{IsTerminal, Write, stderr};

const WIDTH: u64 = 30;

/// A bar on stderr, which is gone when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    all: u64,
    is_shown: bool,
}

impl Progress {
    /// A bar for so many steps, about.
    pub(crate) fn new(what: &str, all: u64) -> Self {
        Progress { what: what.to_owned(), all, is_shown: stderr().is_terminal() }
    }

    /// So many are behind it.
    pub(crate) fn at(&self, done: u64) {
        if self.is_shown {
            let _ = write!(stderr(), "\r{}", line(&self.what, done, self.all));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, all: u64) -> String {
    let full = (WIDTH * done.min(all) / all.max(1)) as usize;
    let (full, empty) = ("#".repeat(full), ".".repeat(WIDTH as usize - full));
    format!("  [{full}{empty}] {what}\x1b[K")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_full() {
        assert_eq!(line("gnn", 0, 40), format!("  [{}] gnn\x1b[K", ".".repeat(30)));
        assert!(line("gnn", 20, 40).contains(&format!("[{}{}]", "#".repeat(15), ".".repeat(15))));
        assert_eq!(line("gnn", 70, 40), line("gnn", 40, 40));
        assert!(line("gnn", 0, 0).contains("...."));
    }
}
