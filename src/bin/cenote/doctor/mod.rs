//! `cenote doctor`: what cenote would see of a program on this machine, and what would keep it from that.

mod driver;
mod surroundings;
mod target;

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use crate::exit::{FAILED, Outcome};
use crate::library;
use crate::render::{BAD, GOOD, WARN, paint};

/// Say whether cenote can work here, and for a program. Ends with status 1 if not.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The library, if not the one that is installed with this program.
    #[arg(long, env = "CENOTE_LIBRARY")]
    library: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The program to examine, as it would be started. It is not run.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    level: Level,
    text: String,
    /// What to do about it.
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, text: impl Into<String>) -> Self {
        Check { name, level: Level::Ok, text: text.into(), remedy: None }
    }

    fn warn(name: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { name, level: Level::Warn, text: text.into(), remedy: Some(remedy.into()) }
    }

    fn fail(name: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Check { name, level: Level::Fail, text: text.into(), remedy: Some(remedy.into()) }
    }
}

pub(crate) fn doctor(options: &Options) -> anyhow::Result<Outcome> {
    let mut checks = vec![match library::find(options.library.as_deref()) {
        Ok(path) => Check::ok("library", path.display().to_string()),
        Err(failure) => {
            Check::fail("library", failure.to_string(), "install it, or name it with --library")
        }
    }];
    checks.extend(driver::check());
    checks.extend(surroundings::check());
    if let Some(program) = options.command.first() {
        checks.extend(target::check(program));
    }
    let failed = checks.iter().any(|check| check.level == Level::Fail);
    let mut outcome = if options.json {
        Outcome::json(&checks)?
    } else {
        Outcome::page(&checks.iter().map(line).collect::<String>())
    };
    outcome.status = if failed { FAILED } else { 0 };
    Ok(outcome)
}

fn line(check: &Check) -> String {
    let level = match check.level {
        Level::Ok => paint(GOOD, "ok  "),
        Level::Warn => paint(WARN, "warn"),
        Level::Fail => paint(BAD, "fail"),
    };
    let mut text = format!("{level}  {:12} {}\n", check.name, check.text);
    if let Some(remedy) = &check.remedy {
        let _ = writeln!(text, "                   {remedy}");
    }
    text
}
