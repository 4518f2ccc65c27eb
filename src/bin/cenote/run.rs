//! `cenote run`: starts a job under the library, and says at its end what was seen.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use cenote::page::{self, State};
use cenote::report::write;
use clap::error::{ContextKind, ContextValue};
use tempfile::TempDir;

use crate::closing::{self, Job};
use crate::exit::{self, CANNOT_START, Failure, Outcome};
use crate::library::{self, Environment};
use crate::program;
use crate::recovered;
use crate::render::{quote, wrap};
use crate::reports::{self, Found};
use crate::signals::Relay;

/// Run a job with its device memory pooled, and say at its end where the memory went.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the reports go (CENOTE_OUTPUT); may hold placeholders such as %p and %r.
    #[arg(short, long)]
    output: Option<String>,
    /// A setting; repeat it for more (CENOTE_CONF). `cenote env --list` shows all.
    #[arg(short, long = "conf", value_name = "KEY:VALUE")]
    conf: Vec<String>,
    /// Put cenote in the place of PyTorch's allocator: every tensor comes from its engine (the setting torch:adapter).
    #[arg(long)]
    torch: bool,
    /// The library, if not the one that is installed with this program.
    #[arg(long, env = "CENOTE_LIBRARY")]
    library: Option<PathBuf>,
    /// Say nothing at the end.
    #[arg(short, long)]
    quiet: bool,
    /// The job and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Outcome> {
    let library = library::find(options.library.as_deref())?;
    let environment = Environment::new(&library, &options.settings(), options.output.as_deref())?;
    environment.warn_of_problems()?;
    let started_unix_ns = now_unix_ns();
    let folder = run_folder(started_unix_ns).map_err(|error| {
        Failure::new(CANNOT_START, format!("can't make a folder for the job's numbers: {error}"))
    })?;

    let began = Instant::now();
    let status = execute(&options.command, &environment, folder.path())?;
    let (reports, missing) = collect(folder.path(), started_unix_ns);
    if !options.quiet {
        let job = Job {
            wall_ns: u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX),
            command: &options.command,
            signal: status.signal(),
            switched_off: environment.switched_off(),
            reports: &reports,
            missing,
        };
        anstream::eprint!("{}", wrap(&closing::describe(&job)));
    }
    Ok(Outcome { text: String::new(), status: own_status(status) })
}

impl Options {
    /// The settings that the options ask for, in the order of their weight.
    fn settings(&self) -> Vec<String> {
        let torch = self.torch.then(|| "torch:adapter".to_owned());
        torch.into_iter().chain(self.conf.iter().cloned()).collect()
    }
}

/// What to type instead, where the job was given without `--`.
pub(crate) fn hint(words: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy()).collect();
    if words.first()? != "run" || words.iter().any(|word| word == "--") {
        return None;
    }
    let job = words.iter().position(|word| word == unknown)?;
    let quoted =
        |words: &[Cow<'_, str>]| words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    let (options, job) = words.split_at(job);
    Some(format!("hint: the job comes after --: cenote {} -- {}\n", quoted(options), quoted(job)))
}

/// The job's status as a shell has it.
fn own_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

fn execute(
    command: &[String],
    environment: &Environment,
    folder: &Path,
) -> anyhow::Result<ExitStatus> {
    let mut relay = Relay::new().context("can't catch signals")?;
    let (program, arguments) = command.split_first().context("no command")?;
    let mut job = Command::new(program);
    job.args(arguments).envs(environment.variables()).env("CENOTE_RUN_DIR", folder);
    let mut child = job.spawn().map_err(|error| {
        let problem = program::find(program).err();
        let message = problem.map_or_else(
            || format!("can't start {}: {error}", quote(program)),
            |problem| format!("{}; {}", problem.text, problem.remedy),
        );
        Failure::new(CANNOT_START, message)
    })?;
    relay.wait(&mut child).context("can't wait for the job")
}

/// A folder for us alone. Its name carries the start of the run, for the rule about who may replace a report.
fn run_folder(started_unix_ns: u64) -> std::io::Result<TempDir> {
    let prefix = write::run_folder_prefix(started_unix_ns);
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).permissions(Permissions::from_mode(0o700)).tempdir()
}

/// The reports of every process that reached CUDA, and how many of them have none yet. Of a process that ended without a
/// report, it is made from its page.
fn collect(folder: &Path, started_unix_ns: u64) -> (Vec<Found>, usize) {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut pages: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "page"));
    pages.sort();
    let mut found = Vec::new();
    for path in &pages {
        match collect_page(path, started_unix_ns) {
            Ok(report) => found.extend(report),
            Err(error) => anstream::eprintln!("cenote: {}", exit::message(&error)),
        }
    }
    let missing = pages.len() - found.len();
    (found, missing)
}

fn collect_page(path: &Path, started_unix_ns: u64) -> anyhow::Result<Option<Found>> {
    let file = page::open(path)?;
    let page = file.page;
    if page.state.load(std::sync::atomic::Ordering::Acquire) == State::Reported as u32 {
        return Ok(Some(reports::read(Path::new(&page.report_path.get_string()))?));
    }
    if file.owner_is_alive() {
        let pid = page.pid.load(std::sync::atomic::Ordering::Relaxed);
        anstream::eprintln!(
            "cenote: process {pid} outlives the job; it writes its report when it ends"
        );
        return Ok(None);
    }
    let report = recovered::report(page);
    let path = recovered::write(page, &report, started_unix_ns, None)?;
    Ok(Some(Found { path, report }))
}

pub(crate) fn now_unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
