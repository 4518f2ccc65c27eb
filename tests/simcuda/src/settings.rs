//! Every environment variable of the simulator, read once, at the first call.
//!
//! Loading the library must have no effect, so nothing here runs from a constructor.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::faults::Faults;

/// What the environment asks for; `README.md` has the table.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) devices: usize,
    pub(crate) capacity: u64,
    pub(crate) context_bytes: u64,
    pub(crate) driver_version: i32,
    pub(crate) real_clock: bool,
    pub(crate) keep_bytes: u64,
    pub(crate) free_script: Vec<u64>,
    pub(crate) missing: Vec<String>,
    pub(crate) stubs: bool,
    pub(crate) self_dlsym: bool,
    pub(crate) strict_free: bool,
    pub(crate) strict_exit: bool,
    pub(crate) strict_fork: bool,
    pub(crate) faults: Faults,
    pub(crate) shared: Option<PathBuf>,
    pub(crate) violations: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    pub(crate) calls_at_exit: Option<PathBuf>,
}

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS
        .get_or_init(|| Settings::read(|name| std::env::var(name).ok().filter(|v| !v.is_empty())))
}

impl Settings {
    /// Reads the variables through `get`. A value that is no number is reported and ignored.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> Settings {
        let number = |name: &str, default: u64| match get(name).map(|text| text.trim().parse()) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(_)) => {
                eprintln!("simcuda: {name} is not a number; using {default}");
                default
            }
        };
        let flag = |name: &str| number(name, 0) != 0;
        let list = |name: &str| {
            let text = get(name).unwrap_or_default();
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(String::from)
                .collect::<Vec<_>>()
        };
        let newest = if cfg!(feature = "old") { 11080 } else { 13000 };
        Settings {
            devices: number("SIMCUDA_DEVICES", 1) as usize,
            capacity: number("SIMCUDA_CAPACITY", 80 << 30),
            context_bytes: number("SIMCUDA_CONTEXT_BYTES", 0),
            driver_version: number("SIMCUDA_DRIVER_VERSION", newest) as i32,
            real_clock: get("SIMCUDA_CLOCK").as_deref() == Some("real"),
            keep_bytes: number("SIMCUDA_KEEP_BYTES", 4 << 20),
            free_script: list("SIMCUDA_FREE_SCRIPT")
                .iter()
                .filter_map(|item| item.parse().ok())
                .collect(),
            missing: list("SIMCUDA_MISSING"),
            stubs: flag("SIMCUDA_STUBS"),
            self_dlsym: flag("SIMCUDA_SELF_DLSYM"),
            strict_free: flag("SIMCUDA_STRICT_FREE"),
            strict_exit: flag("SIMCUDA_STRICT_EXIT"),
            strict_fork: flag("SIMCUDA_STRICT_FORK"),
            faults: Faults::parse(&list("SIMCUDA_FAIL"), &list("SIMCUDA_LATENCY")),
            shared: get("SIMCUDA_SHARED").map(PathBuf::from),
            violations: get("SIMCUDA_VIOLATIONS").map(PathBuf::from),
            log: get("SIMCUDA_LOG").map(PathBuf::from),
            calls_at_exit: get("SIMCUDA_CALLS_AT_EXIT").map(PathBuf::from),
        }
    }
}

#[cfg(test)]
impl Settings {
    /// What an empty environment gives.
    pub(crate) fn defaults() -> Settings {
        Settings::read(|_| None)
    }
}
