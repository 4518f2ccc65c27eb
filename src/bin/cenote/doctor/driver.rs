//! The driver: which `libcuda.so.1` the loader would find, without loading it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::Check;

const NAME: &str = "libcuda.so.1";
/// Where the loader looks in the end.
const FOLDERS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Where containers and WSL have it, often outside of the loader's view.
const ELSEWHERE: &[&str] =
    &["/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/usr/local/cuda/compat"];

pub(super) fn check() -> Vec<Check> {
    let mut checks = vec![library()];
    if let Ok(version) = fs::read_to_string("/proc/driver/nvidia/version") {
        let line = version.lines().next().unwrap_or_default().trim();
        checks.push(Check::ok("kernel", line.to_owned()));
    }
    checks
}

fn library() -> Check {
    match found_by_the_loader() {
        Some(path) if path.components().any(|part| part.as_os_str() == "stubs") => Check::fail(
            "driver",
            format!("{}: the loader finds the stub that is for linking only", path.display()),
            "take the stubs folder out of LD_LIBRARY_PATH",
        ),
        Some(path) => {
            let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            let text = if real == path {
                path.display().to_string()
            } else {
                format!("{} -> {}", path.display(), real.display())
            };
            Check::ok("driver", text)
        }
        None => {
            let hidden = ELSEWHERE
                .iter()
                .map(|folder| Path::new(folder).join(NAME))
                .find(|path| path.exists());
            match hidden.as_deref().and_then(Path::parent) {
                Some(folder) => Check::fail(
                    "driver",
                    format!("{NAME} is in {}, where the loader does not look", folder.display()),
                    format!("add {} to LD_LIBRARY_PATH", folder.display()),
                ),
                None => Check::fail(
                    "driver",
                    format!("the loader finds no {NAME}: CUDA can't work here"),
                    "install the NVIDIA driver, or start the container with its GPUs (--gpus all, --nv)",
                ),
            }
        }
    }
}

fn found_by_the_loader() -> Option<PathBuf> {
    let path = env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let named = path.split([':', ';']).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let named = named.map(|folder| folder.join(NAME)).find(|path| path.is_file());
    let fallback =
        || FOLDERS.iter().map(|folder| Path::new(folder).join(NAME)).find(|path| path.is_file());
    named.or_else(in_cache).or_else(fallback)
}

/// The loader's cache holds paths as strings that end with a zero byte.
fn in_cache() -> Option<PathBuf> {
    let cache = fs::read("/etc/ld.so.cache").ok()?;
    let strings = cache.split(|&byte| byte == 0);
    let suffix = format!("/{NAME}");
    let paths = strings.filter(|string| string.ends_with(suffix.as_bytes()));
    let paths = paths.filter_map(|path| Some(PathBuf::from(std::str::from_utf8(path).ok()?)));
    paths.filter(|path| path.is_absolute()).find(|path| path.is_file())
}
