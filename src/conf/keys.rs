//! The table of keys and of environment variables.

use std::time::Duration;

use super::divisions::{Divisions, divisions};
use super::value::{self, Kind};

/// What the library does with the calls that it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Pool, track and report.
    Pool,
    /// Track and report; every call goes to the driver.
    Observe,
    /// Do nothing.
    Off,
}

/// What is done about PyTorch's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torch {
    /// It stays; its segments are pooled and reported.
    Off,
    /// The adapter takes its place: every tensor comes from the engine.
    Adapter,
}

/// How many call stacks are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// None: sites are unknown, counters stay exact.
    Off,
    /// One of 64 allocations, and every one of 1 MiB and more.
    Sampled,
    /// Every allocation.
    Full,
}

/// Everything that `CENOTE_CONF` can set.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `mode`
    pub mode: Mode,
    /// `limit`, in bytes of device memory a device.
    pub limit: Option<u64>,
    /// `per_process_memory_fraction`, of a device's memory.
    pub per_process_memory_fraction: Option<f64>,
    /// `garbage_collection_threshold`, of the limit or else of a device's memory.
    pub garbage_collection_threshold: Option<f64>,
    /// `max_split_size_mb`, in bytes.
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb`, in bytes.
    pub max_non_split_rounding: u64,
    /// `roundup_power2_divisions`
    pub roundup_power2_divisions: Divisions,
    /// `retain`, in bytes.
    pub retain: u64,
    /// `slack`, of the peak of live bytes.
    pub slack: f64,
    /// `idle_release`
    pub idle_release: Duration,
    /// `free_barrier`
    pub free_barrier: bool,
    /// `slabs`
    pub slabs: bool,
    /// `stacks`
    pub stacks: Stacks,
    /// `free_stacks`
    pub free_stacks: bool,
    /// `torch`
    pub torch: Torch,
    /// `trace`
    pub trace: Option<String>,
    /// `report_every`
    pub report_every: Option<Duration>,
    /// `strict`
    pub strict: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Pool,
            limit: None,
            per_process_memory_fraction: None,
            garbage_collection_threshold: None,
            max_split_size: None,
            max_non_split_rounding: 20 << 20,
            roundup_power2_divisions: Divisions::NONE,
            retain: 0,
            slack: 0.018,
            idle_release: Duration::from_millis(500),
            free_barrier: false,
            slabs: true,
            stacks: Stacks::Full,
            free_stacks: false,
            torch: Torch::Off,
            trace: None,
            report_every: None,
            strict: false,
        }
    }
}

/// One key of `CENOTE_CONF`.
#[derive(Debug)]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// The value in force without the key; `none` where there is none.
    pub default: &'static str,
    /// What it does, one or two sentences.
    pub doc: &'static str,
    /// Parses a value into the settings; the error is what the key takes.
    pub(super) set: fn(&mut Settings, &str) -> Result<(), &'static str>,
}

const MODES: &str = "one of pool, observe, off";
const TORCH: &str = "one of off, adapter";
const STACKS: &str = "one of off, sampled, full";

/// Builds one entry: the parser that is named, then where its value goes.
macro_rules! key {
    ($name:literal, $kind:expr, $default:literal, $parse:expr, $field:ident, $doc:literal) => {
        key!(@ $name, $kind, $default, $parse, |settings, value| settings.$field = value, $doc)
    };
    ($name:literal, $kind:expr, $default:literal, $parse:expr, some $field:ident, $doc:literal) => {
        key!(@ $name, $kind, $default, $parse, |settings, value| settings.$field = Some(value), $doc)
    };
    (@ $name:literal, $kind:expr, $default:literal, $parse:expr, |$settings:ident, $value:ident| $set:expr, $doc:literal) => {
        Key {
            name: $name,
            kind: $kind,
            default: $default,
            doc: $doc,
            set: |$settings, text| {
                let $value = $parse(text).ok_or($kind.takes())?;
                $set;
                Ok(())
            },
        }
    };
}

/// Every key, in the order in which they are shown.
pub const KEYS: &[Key] = &[
    key!(
        "mode",
        Kind::Word(MODES),
        "pool",
        mode,
        mode,
        "pool: keep freed memory and hand it out again. observe: only track and report. off: do nothing."
    ),
    key!("limit", Kind::Bytes, "none", value::parse_bytes, some limit,
        "Device memory that the process may hold on each device, whichever call it comes from. More is out of memory."),
    key!("per_process_memory_fraction", Kind::Ratio, "none", value::ratio, some per_process_memory_fraction,
        "The same as a share of the device's total memory. With limit, the smaller counts."),
    key!("garbage_collection_threshold", Kind::Ratio, "none", value::ratio, some garbage_collection_threshold,
        "Above this share of the limit (else of the device) the memory that was unused longest goes back to the driver before more is taken."),
    key!("max_split_size_mb", Kind::Mebibytes, "none", value::mebibytes, some max_split_size,
        "Blocks of this size and more are not split once they are free: they serve only requests of this size and more that are less than max_non_split_rounding_mb smaller. The pool behind the doors splits none, and lets smaller blocks serve requests at most an eighth smaller."),
    key!(
        "max_non_split_rounding_mb",
        Kind::Mebibytes,
        "20",
        value::mebibytes,
        max_non_split_rounding,
        "See max_split_size_mb."
    ),
    key!(
        "roundup_power2_divisions",
        Kind::Divisions,
        "0",
        divisions,
        roundup_power2_divisions,
        "Round sizes up to parts of the way to the next power of two: into how many parts, for all sizes or by MiB. Sizes that differ a little then share blocks. For memory from the C API, from PyTorch through it, and in cenote replay."
    ),
    key!(
        "retain",
        Kind::Bytes,
        "0",
        value::parse_bytes,
        retain,
        "Cached bytes on each device that are never given back for being idle."
    ),
    key!(
        "slack",
        Kind::RatioOrZero,
        "0.018",
        value::ratio_or_zero,
        slack,
        "Share of the peak of live bytes that may be held beyond it before pages move. For memory from the C API, from PyTorch through it, and in cenote replay."
    ),
    key!(
        "idle_release",
        Kind::Duration,
        "500ms",
        value::duration,
        idle_release,
        "Cached memory that nobody asked for during this time goes back to the driver as soon as the device is idle."
    ),
    key!(
        "free_barrier",
        Kind::Flag,
        "false",
        value::flag,
        free_barrier,
        "Let every free wait for the work in flight, for programs that use cudaFree as a barrier."
    ),
    key!(
        "slabs",
        Kind::Flag,
        "true",
        value::flag,
        slabs,
        "Cut blocks under 1 MiB from shared 2 MiB slabs. Set it to false when small blocks are exported to a process that runs without cenote."
    ),
    key!(
        "stacks",
        Kind::Word(STACKS),
        "full",
        stacks,
        stacks,
        "Call stacks taken: of every allocation, of a sample, of none. Counters are exact in any case."
    ),
    key!(
        "free_stacks",
        Kind::Flag,
        "false",
        value::flag,
        free_stacks,
        "Keep the call stack of every free as well, so that the report of a double free shows both. The first free from a place costs about 10 us more."
    ),
    key!(
        "torch",
        Kind::Word(TORCH),
        "off",
        torch,
        torch,
        "adapter: put cenote in the place of PyTorch's allocator, so that every tensor comes from its engine. Needs g++ once for each PyTorch; cenote run --torch sets it."
    ),
    key!("trace", Kind::File, "none", value::file, some trace,
        "Write every allocation and free of device memory to this file, for cenote replay and cenote advise. Placeholders as in CENOTE_OUTPUT: %p for the process id."),
    key!("report_every", Kind::Duration, "none", value::duration, some report_every,
        "Also write the report at this interval."),
    key!(
        "strict",
        Kind::Flag,
        "false",
        value::flag,
        strict,
        "Let cenote run refuse to start when a part of the configuration is wrong."
    ),
];

fn mode(text: &str) -> Option<Mode> {
    match text {
        "pool" => Some(Mode::Pool),
        "observe" => Some(Mode::Observe),
        "off" => Some(Mode::Off),
        _ => None,
    }
}

fn torch(text: &str) -> Option<Torch> {
    match text {
        "off" => Some(Torch::Off),
        "adapter" => Some(Torch::Adapter),
        _ => None,
    }
}

fn stacks(text: &str) -> Option<Stacks> {
    match text {
        "off" => Some(Stacks::Off),
        "sampled" => Some(Stacks::Sampled),
        "full" => Some(Stacks::Full),
        _ => None,
    }
}

/// An environment variable that cenote reads.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The value in force when it is not set.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// Every environment variable, in the order in which they are shown.
pub const VARIABLES: &[Variable] = &[
    Variable { name: "CENOTE_CONF", default: "", doc: "The configuration: key:value,key:value." },
    Variable {
        name: "CENOTE_OUTPUT",
        default: "cenote-%e-%p.json",
        doc: "Where the report goes. %p process id, %e program, %h host, %t start in Unix seconds, %r rank, %l local rank, %w world size, %j SLURM job, %q{NAME} any variable, %% a percent sign. Missing folders are made.",
    },
    Variable {
        name: "CENOTE_LOG",
        default: "off",
        doc: "Messages on stderr: off, error, warn, info.",
    },
    Variable { name: "CENOTE_DISABLE", default: "", doc: "1 switches everything off." },
    Variable {
        name: "CENOTE_RANK",
        default: "",
        doc: "The rank to report, where the launcher's is wrong.",
    },
    Variable {
        name: "CENOTE_CACHE_DIR",
        default: "",
        doc: "Folder of the compiled adapters for PyTorch (torch:adapter); else XDG_CACHE_HOME/cenote, else ~/.cache/cenote.",
    },
    Variable {
        name: "CENOTE_RUNTIME_DIR",
        default: "",
        doc: "Folder of the live pages; else XDG_RUNTIME_DIR/cenote, else cenote-UID in /dev/shm or in the folder for temporary files.",
    },
];
