//! `cenote`: runs a job under the library, and reads what the library wrote.
#![forbid(unsafe_code)]

mod advise;
mod closing;
mod doctor;
mod earlier;
mod env;
mod exit;
mod frag;
mod free;
mod glossary;
mod leaks;
mod library;
mod program;
mod progress;
mod recover;
mod recovered;
mod render;
mod replay;
mod reports;
mod request;
mod run;
mod schema;
mod signals;
mod stack;
mod summary;
mod traces;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use exit::{FAILED, Failure, Outcome};

/// Pools the device memory of a CUDA program and says where it went.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, arg_required_else_help = true, after_help = exit::TABLE)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(run::Options),
    Summary(summary::Options),
    Leaks(leaks::Options),
    Frag(frag::Options),
    Recover(recover::Options),
    Replay(replay::Options),
    Advise(advise::Options),
    Doctor(doctor::Options),
    Env(env::Options),
    Schema(schema::Options),
}

fn main() -> ExitCode {
    let words = with_verb(std::env::args_os().collect());
    let arguments = Arguments::try_parse_from(&words).unwrap_or_else(|error| {
        let _ = error.print();
        if let Some(hint) = run::hint(&words, &error) {
            let _ = write!(anstream::stderr(), "{hint}");
        }
        std::process::exit(error.exit_code())
    });
    let outcome = match arguments.verb {
        Verb::Run(options) => run::run(&options),
        Verb::Summary(options) => summary::summary(&options),
        Verb::Leaks(options) => leaks::leaks(&options),
        Verb::Frag(options) => frag::frag(&options),
        Verb::Recover(options) => recover::recover(&options),
        Verb::Replay(options) => replay::replay(&options),
        Verb::Advise(options) => advise::advise(&options),
        Verb::Doctor(options) => doctor::doctor(&options),
        Verb::Env(options) => env::env(&options),
        Verb::Schema(options) => schema::schema(&options),
    };
    match outcome.and_then(|outcome| print(&outcome).map(|()| outcome.status)) {
        Ok(status) => status.into(),
        Err(error) => {
            let _ = writeln!(anstream::stderr(), "cenote: {}", exit::message(&error));
            error.downcast_ref::<Failure>().map_or(FAILED, |failure| failure.status).into()
        }
    }
}

/// `cenote REPORT` is `cenote summary REPORT`.
fn with_verb(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_report = |argument: &OsString| {
        let path = Path::new(argument);
        let like_a_report = path.extension().is_some_and(|extension| extension == "json");
        let is_verb = Arguments::command().find_subcommand(argument).is_some();
        !is_verb && (path.exists() || like_a_report)
    };
    if arguments.get(1).is_some_and(is_report) {
        arguments.insert(1, "summary".into());
    }
    arguments
}

/// A reader that has seen enough (`cenote summary X | head -3`) is no failure.
fn print(outcome: &Outcome) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(outcome.text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
