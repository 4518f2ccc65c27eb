//! One run of a program: its environment, its time limit.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use tempfile::TempDir;

use super::{Outcome, Running, native, stage};

/// A run in preparation.
#[derive(Debug, Clone)]
pub struct Run {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: BTreeMap<OsString, OsString>,
    preloads: Vec<PathBuf>,
    input: Option<String>,
    /// Violations of the driver's rules are part of the question.
    pub(super) violations_expected: bool,
    /// The last report was made between two calls.
    pub(super) sums_hold: bool,
    folder: Rc<TempDir>,
}

impl Run {
    /// The program `name` of `tests/native` under cenote, with the stand-in driver on its library path.
    pub fn new(name: &str) -> Self {
        Run::program(native(name))
    }

    /// Any program.
    pub fn program(program: impl Into<PathBuf>) -> Self {
        let folder = Rc::new(tempfile::Builder::new().prefix("cenote-").tempdir().unwrap());
        let path = folder.path();
        for name in ["cwd", "out", "tmp", "run", "home", "pages", "shared"] {
            fs::create_dir(path.join(name)).unwrap();
        }
        let mut run = Run {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            preloads: vec![stage().join("libcenote.so")],
            input: None,
            violations_expected: false,
            sums_hold: true,
            folder: Rc::clone(&folder),
        };
        run = run
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", path.join("home"))
            .env("TMPDIR", path.join("tmp"))
            .env("XDG_RUNTIME_DIR", path.join("run"))
            .env("CENOTE_RUNTIME_DIR", path.join("pages"))
            .env("CENOTE_OUTPUT", path.join("out/%e-%p.json"))
            .env("LD_LIBRARY_PATH", stage().join("sim"))
            .env("SIMCUDA_VIOLATIONS", path.join("violations"))
            .env("SIMCUDA_CALLS_AT_EXIT", path.join("calls"))
            .env("SIMCUDA_SHARED", path.join("shared"));
        run
    }

    /// One more argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Run::arg)
    }

    /// A variable of its environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Without a variable that the harness sets.
    pub fn without(mut self, name: &str) -> Self {
        self.environment.remove(OsStr::new(name));
        self
    }

    /// `CENOTE_CONF`
    pub fn conf(self, text: &str) -> Self {
        self.env("CENOTE_CONF", text)
    }

    /// With or without cenote. Off clears the whole list of preloads.
    pub fn preload(mut self, on: bool) -> Self {
        self.preloads = if on { vec![stage().join("libcenote.so")] } else { Vec::new() };
        self
    }

    /// Another library to preload before cenote.
    pub fn before(mut self, library: impl Into<PathBuf>) -> Self {
        self.preloads.insert(0, library.into());
        self
    }

    /// Another library to preload after cenote.
    pub fn after(mut self, library: impl Into<PathBuf>) -> Self {
        self.preloads.push(library.into());
        self
    }

    /// A driver from before context events (12.5).
    pub fn old_driver(self) -> Self {
        self.env("LD_LIBRARY_PATH", stage().join("sim-old"))
    }

    /// No driver on the library path.
    pub fn no_driver(self) -> Self {
        self.without("LD_LIBRARY_PATH")
    }

    /// What the program reads from its standard input; nothing otherwise.
    pub fn input(mut self, text: impl Into<String>) -> Self {
        self.input = Some(text.into());
        self
    }

    /// The program ends in the middle of a call: the sums of its report need not hold.
    pub fn ends_in_a_call(mut self) -> Self {
        self.sums_hold = false;
        self
    }

    /// The driver is expected to complain.
    pub fn with_violations(mut self) -> Self {
        self.violations_expected = true;
        self
    }

    /// Another process in the same folders: the same shared memory of the stand-in driver, the same place for reports.
    pub fn beside(mut self, other: &Run) -> Self {
        let theirs = other.folder.path();
        for value in self.environment.values_mut() {
            if let Ok(rest) = Path::new(value).strip_prefix(self.folder.path()) {
                *value = theirs.join(rest).into_os_string();
            }
        }
        self.folder = Rc::clone(&other.folder);
        self
    }

    /// The command line with the environment of the run, without any preload.
    pub(super) fn command_line(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(stage().join("cenote"));
        command
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(self.folder().join("cwd"));
        command
    }

    /// The folder of the run: `cwd`, `out`, `tmp`, `run`, `home`, `pages`, `shared` are in it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        self.spawn().wait()
    }

    /// Starts it.
    pub fn spawn(self) -> Running {
        let path = self.folder.path();
        // Files and not pipes: a child that outlives the program would hold a pipe open.
        let output = |name: &str| {
            let file = tempfile::Builder::new().prefix(name).tempfile_in(path).unwrap();
            file.keep().unwrap()
        };
        let (stdout, stderr) = (output("stdout"), output("stderr"));
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(path.join("cwd"));
        if !self.preloads.is_empty() {
            let list: Vec<_> =
                self.preloads.iter().map(|library| library.to_str().unwrap()).collect();
            command.env("LD_PRELOAD", list.join(":"));
        }
        let input = self.input.as_ref().map(|text| {
            fs::write(path.join("input"), text).unwrap();
            fs::File::open(path.join("input")).unwrap()
        });
        command
            .stdin(input.map_or_else(Stdio::null, Stdio::from))
            .stdout(stdout.0)
            .stderr(stderr.0)
            .process_group(0);
        let child =
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.program.display()));
        Running { child, outputs: [stdout.1, stderr.1], started: Instant::now(), run: self }
    }
}
