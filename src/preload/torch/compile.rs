//! The adapter as a library: compiled once for each PyTorch, and kept.
//!
//! It is C++ against PyTorch's own headers, since the classes of another release have another layout. g++ alone does it, in about
//! five seconds; whoever comes meanwhile, another rank for one, waits for it.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::find::Torch;

/// The source, file by file.
const SOURCES: &[(&str, &str)] = &[
    ("adapter.cpp", include_str!("../../../torch/adapter.cpp")),
    ("cenote.h", include_str!("../../../include/cenote.h")),
    ("cenote_device.h", include_str!("../../../torch/cenote_device.h")),
    ("history.h", include_str!("../../../torch/history.h")),
    ("ipc.h", include_str!("../../../torch/ipc.h")),
    ("oom.h", include_str!("../../../torch/oom.h")),
    ("pools.h", include_str!("../../../torch/pools.h")),
    ("snapshot.h", include_str!("../../../torch/snapshot.h")),
    ("stats.h", include_str!("../../../torch/stats.h")),
    ("versions.h", include_str!("../../../torch/versions.h")),
];

/// How long one rank waits for another that compiles.
const PATIENCE: Duration = Duration::from_secs(120);

/// Releases that the adapter is known to compile against.
const OLDEST: u32 = 206;

/// A name in PyTorch's library that tells which of the two ABIs of `std::string` it was built with.
const NEW_ABI: &[u8] = b"_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx11";

/// The library for this PyTorch, compiled now if it was not before.
///
/// # Errors
/// What is missing, and what to do about it.
pub(super) fn adapter(torch: &Torch) -> Result<PathBuf, String> {
    if torch.number < OLDEST {
        return Err(format!("PyTorch {} is too old, it takes 2.6 or later", torch.version));
    }
    let folder = cache()?;
    let flags = flags(torch)?;
    let mut hash = DefaultHasher::new();
    (SOURCES, &flags, env!("CARGO_PKG_VERSION")).hash(&mut hash);
    let name = format!("torch-{}-{:016x}", torch.version, hash.finish());
    let library = folder.join(format!("{name}.so"));
    if !library.exists() {
        let _lock = Lock::wait(&folder.join(format!("{name}.lock")));
        if !library.exists() {
            compile(&folder.join(&name), &library, &flags)?;
        }
    }
    match is_ours(&library) {
        Ok(true) => Ok(library),
        Ok(false) => Err(format!("others can write to {}: remove it", library.display())),
        Err(error) => Err(format!("can't read {}: {error}", library.display())),
    }
}

/// The right to compile, so that ranks that start together do it once. It is a matter of time and no more: without it, or where
/// its holder does not come to an end, everybody compiles for himself.
struct Lock(Option<File>);

impl Lock {
    fn wait(path: &Path) -> Lock {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        let Ok(file) = file else { return Lock(None) };
        let begun = Instant::now();
        loop {
            // SAFETY: the file is open.
            let code = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
            let error = std::io::Error::last_os_error().kind();
            let is_held = matches!(error, ErrorKind::WouldBlock | ErrorKind::Interrupted);
            if code == 0 || !is_held || begun.elapsed() > PATIENCE {
                return Lock((code == 0).then_some(file));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // SAFETY: the file is open. Closing it is not enough: a child that was forked meanwhile has it open as well.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }
}

/// Whether nobody else may change a file or folder.
fn is_ours(path: &Path) -> std::io::Result<bool> {
    let found = fs::metadata(path)?;
    // SAFETY: always succeeds.
    Ok(found.uid() == unsafe { libc::geteuid() } && found.mode() & 0o022 == 0)
}

/// The folder for what is compiled: ours alone, since what lies there is run.
fn cache() -> Result<PathBuf, String> {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("CENOTE_CACHE_DIR")
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("cenote")))
        .or_else(|| Some(variable("HOME")?.join(".cache/cenote")))
        .ok_or("no folder for the compiled adapter: set CENOTE_CACHE_DIR")?;
    let remedy = |error: &dyn std::fmt::Display| {
        format!(
            "can't keep the compiled adapter in {}: {error}; set CENOTE_CACHE_DIR",
            folder.display()
        )
    };
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| remedy(&error))?;
    if !is_ours(&folder).map_err(|error| remedy(&error))? {
        return Err(remedy(&"others can write there"));
    }
    Ok(folder)
}

/// What the compiler is told beside the names of files.
fn flags(torch: &Torch) -> Result<Vec<String>, String> {
    let library = fs::read(torch.folder.join("lib/libc10.so"));
    let library = library.map_err(|error| format!("can't read PyTorch's libc10.so: {error}"))?;
    let new_abi = library.windows(NEW_ABI.len()).any(|window| window == NEW_ABI);
    let mut flags: Vec<String> =
        ["-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", "-w"]
            .map(str::to_owned)
            .into();
    flags.push(format!("-DCENOTE_TORCH={}", torch.number));
    flags.push(format!("-D_GLIBCXX_USE_CXX11_ABI={}", u8::from(new_abi)));
    for folder in [vec![torch.folder.join("include")], toolkit(&torch.folder)?].concat() {
        flags.extend(["-isystem".to_owned(), folder.to_string_lossy().into_owned()]);
    }
    flags.push(format!("-L{}", torch.folder.join("lib").display()));
    Ok(flags)
}

/// Folders with the headers of CUDA's runtime: those that came with PyTorch, or an installed toolkit's. Wheels spread them: some
/// lack a part that Triton's have.
fn toolkit(torch: &Path) -> Result<Vec<PathBuf>, String> {
    let site = torch.parent().unwrap_or(torch);
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let installed = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable);
    let installed = installed.chain(["/usr/local/cuda".into(), "/opt/cuda".into()]);
    let prefix = site.ancestors().nth(3).unwrap_or(site);
    let folders =
        ["nvidia/cu13/include", "nvidia/cuda_runtime/include"].map(|part| site.join(part));
    let folders = folders.into_iter().chain(installed.map(|folder| folder.join("include")));
    let folders =
        folders.chain(["targets/x86_64-linux/include", "include"].map(|part| prefix.join(part)));
    let folders =
        folders.chain([site.join("triton/backends/nvidia/include"), "/usr/include".into()]);
    let found: Vec<_> =
        folders.filter(|folder| folder.join("cuda_runtime_api.h").exists()).collect();
    if found.is_empty() {
        return Err("the headers of CUDA's runtime are not there: pip install nvidia-cuda-runtime, or set CUDA_HOME".to_owned());
    }
    Ok(found.into_iter().filter(|folder| folder != Path::new("/usr/include")).collect())
}

/// Compiles in a folder of this process alone, and puts the result in its place.
fn compile(name: &Path, library: &Path, flags: &[String]) -> Result<(), String> {
    let folder = name.with_file_name(format!(
        "{}.{}",
        name.file_name().unwrap_or_default().to_string_lossy(),
        std::process::id()
    ));
    let failed = |error: std::io::Error| format!("can't write to {}: {error}", folder.display());
    let _ = fs::remove_dir_all(&folder);
    fs::DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
    for (name, text) in SOURCES {
        fs::write(folder.join(name), text).map_err(failed)?;
    }
    let fresh = folder.join("adapter.so");
    let output = File::create(folder.join("compiler.log")).map_err(failed)?;
    let outcome = run_compiler(&folder, &fresh, flags, output);
    // Somebody else may have had it by now.
    if outcome.is_err() && library.exists() {
        let _ = fs::remove_dir_all(&folder);
        return Ok(());
    }
    outcome.map_err(|problem| {
        let kept = name.with_file_name("failed");
        let _ = fs::remove_dir_all(&kept);
        let _ = fs::rename(&folder, &kept);
        let log = kept.join("compiler.log");
        match fs::metadata(&log) {
            Ok(found) if found.len() > 0 => format!("{problem}: see {}", log.display()),
            _ => problem,
        }
    })?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    fs::rename(&fresh, library).map_err(failed)?;
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

fn run_compiler(folder: &Path, fresh: &Path, flags: &[String], output: File) -> Result<(), String> {
    let text = std::env::var("CXX").unwrap_or_default();
    let mut words = text.split_whitespace();
    let compiler = words.next().unwrap_or("g++");
    let mut command = Command::new(compiler);
    command.args(words).arg(folder.join("adapter.cpp")).arg("-o").arg(fresh).args(flags);
    command.args(["-lc10_cuda", "-lc10"]).env_remove("LD_PRELOAD");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
    // The job may have told the system that it does not care how its children end: then what counts is the file.
    match command.status() {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(format!(
            "there is no compiler \"{compiler}\" to build the adapter with (install g++, or set CXX)"
        )),
        Ok(status) if !status.success() => Err("the adapter does not compile".to_owned()),
        _ if !fresh.exists() => Err("the compiler made no adapter".to_owned()),
        _ => Ok(()),
    }
}
