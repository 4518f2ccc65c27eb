//! What the environment does to a job: other preloads, settings, limits of the sandbox.

use std::env;
use std::fs;

use cenote::conf;
use cenote::report::Template;

use super::Check;
use crate::library::is_disabled;

/// Preloads that are known to meet cenote, by a part of their name: what comes of it, and what to do.
const PRELOADS: &[(&str, &str, &str)] = &[
    (
        "torch_memory_saver",
        "moves device memory itself, below or above cenote",
        "use one of the two, or set mode:observe",
    ),
    (
        "libvgpu",
        "limits device memory (HAMi) through the same functions",
        "set mode:observe, or leave its limit to the key limit",
    ),
    (
        "libasan",
        "wants to be the first preload",
        "put it before cenote: LD_PRELOAD=libasan.so:libcenote.so",
    ),
    ("libnvshare", "replaces device memory by managed memory", "use one of the two"),
];
/// Preloads that touch host memory only.
const HARMLESS: &[&str] = &["jemalloc", "tcmalloc", "mimalloc", "libcenote"];
/// Starts of the names of variables that change how device memory is used.
const VARIABLES: &[&str] = &[
    "CENOTE_",
    "PYTORCH_",
    "XLA_PYTHON_CLIENT_",
    "TF_GPU_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "NCCL_CUMEM_ENABLE",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
];

pub(super) fn check() -> Vec<Check> {
    let mut checks = preloads();
    checks.extend(settings());
    let mut variables: Vec<_> = env::vars_os()
        .filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            VARIABLES.iter().any(|start| name.starts_with(start)).then(|| format!("{name}={value}"))
        })
        .collect();
    variables.sort();
    if !variables.is_empty() {
        checks.push(Check::ok("environment", variables.join(" ")));
    }
    checks.extend(sandbox());
    checks
}

fn preloads() -> Vec<Check> {
    let set = env::var("LD_PRELOAD").unwrap_or_default();
    let entries = set.split([':', ' ']).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let known = PRELOADS.iter().find(|(part, ..)| entry.contains(part));
            match known {
                Some((_, what, remedy)) => {
                    Check::warn("preload", format!("{entry} {what}"), *remedy)
                }
                None if HARMLESS.iter().any(|part| entry.contains(part)) => {
                    Check::ok("preload", format!("{entry} is preloaded too and does no harm"))
                }
                None => Check::ok(
                    "preload",
                    format!("{entry} is preloaded too; cenote comes before it"),
                ),
            }
        })
        .collect()
}

fn settings() -> Vec<Check> {
    let mut checks = Vec::new();
    if is_disabled() {
        checks.push(Check::fail(
            "settings",
            "CENOTE_DISABLE switches cenote off",
            "unset CENOTE_DISABLE",
        ));
    }
    let text = env::var("CENOTE_CONF").unwrap_or_default();
    let (settings, problems) = conf::parse(&text);
    let remedy = "`cenote env --list` shows what each takes";
    let output = env::var("CENOTE_OUTPUT").unwrap_or_default();
    let problems = problems.into_iter().chain(Template::problems(&output));
    checks.extend(problems.map(|problem| Check::warn("settings", problem, remedy)));
    if settings.mode == conf::Mode::Off {
        checks.push(Check::warn(
            "settings",
            "mode:off in CENOTE_CONF: nothing is seen",
            "set mode:observe or mode:pool",
        ));
    }
    if checks.is_empty() {
        checks.push(Check::ok(
            "settings",
            if text.is_empty() { "defaults".to_owned() } else { text },
        ));
    }
    checks
}

/// `no_new_privs` and seccomp do not hinder a preload, but they hinder what people try next (gdb, ptrace, perf).
fn sandbox() -> Option<Check> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:"))?.trim();
    (mode != "0").then(|| {
        Check::ok(
            "sandbox",
            "system calls are filtered (seccomp); cenote needs none that is unusual",
        )
    })
}
