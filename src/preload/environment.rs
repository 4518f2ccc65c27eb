//! What the process was told by its environment, and who it is.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use crate::conf::{self, Settings};
use crate::page::{self, PageLayout};
use crate::report::{self, Template, write};

use super::clock;

/// Read once, at the first hooked call.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) settings: Settings,
    pub(super) problems: Vec<String>,
    pub(super) disabled: bool,
    pub(super) log: Option<tracing::Level>,
    /// Folder of the live pages.
    pub(super) pages: PathBuf,
    /// `cenote run` started the job: it has named the problems, and looks for the page.
    pub(super) under_run: bool,
    configuration: OsString,
    pub(super) variables: Variables,
    /// Where the program was at the first hooked call: a relative output belongs there.
    pub(super) folder: PathBuf,
}

/// A copy of the environment: a thread of ours must not read the real one while the program changes it.
#[derive(Debug, Clone, Default)]
pub(super) struct Variables(HashMap<OsString, OsString>);

impl Variables {
    /// The environment as it is now; for the thread of a hooked call, or of exit.
    pub(super) fn now() -> Self {
        Variables(std::env::vars_os().collect())
    }

    /// A variable; none where it is not set or empty.
    pub(super) fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(OsStr::new(name)).filter(|value| !value.is_empty())
    }

    /// A variable as text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    /// Those that tell how memory is used.
    pub(super) fn telling(&self) -> BTreeMap<String, String> {
        let set = TELLING.iter().filter_map(|name| Some(((*name).to_owned(), self.text(name)?)));
        set.collect()
    }
}

/// Variables that change how memory is used: in the report they answer half of all questions.
const TELLING: &[&str] = &[
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_GPU_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "NCCL_CUMEM_ENABLE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "LD_PRELOAD",
];

pub(super) fn read() -> Environment {
    let variables = Variables::now();
    let variable = |name| variables.get(name).cloned();
    let configuration = variable("CENOTE_CONF").unwrap_or_default();
    let (settings, problems) =
        conf::parse_with(&configuration.to_string_lossy(), |name| variables.text(name));
    let run = variable("CENOTE_RUN_DIR");
    let pages = run.clone().map(PathBuf::from).unwrap_or_else(|| {
        page::runtime_dir(variable("CENOTE_RUNTIME_DIR"), variable("XDG_RUNTIME_DIR"))
    });
    Environment {
        settings,
        problems,
        disabled: variable("CENOTE_DISABLE").is_some_and(|value| value != "0"),
        log: variable("CENOTE_LOG").and_then(|level| level.to_str()?.parse().ok()),
        pages,
        under_run: run.is_some(),
        configuration,
        variables,
        folder: std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned()),
    }
}

impl Environment {
    /// Writes down in the page who the process is.
    pub(super) fn describe(&self, page: &PageLayout, pid: u32, started_unix_ns: u64) {
        page.pid.store(pid, Relaxed);
        page.parent_pid.store(std::os::unix::process::parent_id(), Relaxed);
        page.started_unix_ns.store(started_unix_ns, Relaxed);
        page.updated_unix_ns.store(started_unix_ns, Relaxed);
        page.configuration.set(self.configuration.as_bytes());
        page.host.set(&host());
        if let Ok(executable) = std::fs::read_link("/proc/self/exe") {
            page.executable.set(executable.as_os_str().as_bytes());
        }
        page.command.set(&std::fs::read("/proc/self/cmdline").unwrap_or_default());
        page.output.set(output(&self.variables, &self.folder, page).as_os_str().as_bytes());
    }
}

fn host() -> Vec<u8> {
    let mut name = [0u8; 256];
    // SAFETY: the buffer is as long as is said.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    name.iter().copied().take_while(|&byte| byte != 0).collect()
}

/// Where the report goes: `CENOTE_OUTPUT` with its placeholders filled in, absolute. Asked again at exit, since a launcher may
/// set the rank after the first CUDA call.
pub(super) fn output(variables: &Variables, folder: &Path, page: &PageLayout) -> PathBuf {
    let template = variables.text("CENOTE_OUTPUT");
    let template = template.unwrap_or_else(|| "cenote-%e-%p.json".to_owned());
    let rank = report::rank(|name| variables.text(name));
    let values = Template {
        pid: page.pid.load(Relaxed),
        executable: &page.executable.get_string(),
        host: &page.host.get_string(),
        started_unix_ns: page.started_unix_ns.load(Relaxed),
        rank: rank.as_ref(),
    };
    folder.join(values.expand(&template, |name| variables.text(name)))
}

/// A path with its placeholders filled in, absolute; without a page.
pub(super) fn placed(template: &str) -> PathBuf {
    let variables = Variables::now();
    let rank = report::rank(|name| variables.text(name));
    let executable = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let host = host();
    let values = Template {
        pid: std::process::id(),
        executable: &executable.to_string_lossy(),
        host: &String::from_utf8_lossy(&host),
        started_unix_ns: process_started_unix_ns(),
        rank: rank.as_ref(),
    };
    let folder = std::env::current_dir().unwrap_or_else(|_| Path::new("/").to_owned());
    folder.join(values.expand(template, |name| variables.text(name)))
}

/// When the run began that this process belongs to: the job under `cenote run`, else the process itself.
pub(super) fn run_started_unix_ns(variables: &Variables) -> u64 {
    let run = variables.get("CENOTE_RUN_DIR").map(PathBuf::from);
    let run = run.and_then(|folder| write::run_started_unix_ns(&folder));
    run.unwrap_or_else(process_started_unix_ns)
}

/// When the kernel started this process; the first CUDA call may come much later.
fn process_started_unix_ns() -> u64 {
    let modified = std::fs::metadata("/proc/self").and_then(|process| process.modified());
    let since = modified.ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or_else(clock::unix_ns, |since| since.as_nanos() as u64)
}
