//! Which library an allocation is for, told from the file names of its stack.
//!
//! The frame that calls the driver is rarely the one that wanted the memory: below it are cenote, the CUDA runtime and
//! libc. The owner is the first library outside of this plumbing, innermost frame first.

/// The owner of a stack that was not taken or that no known module holds.
pub const UNKNOWN: &str = "unknown";
/// The owner of what the program's own code, or a Python interpreter, allocates.
pub const PROGRAM: &str = "program";

/// Files that pass requests on and want no memory themselves. Compared with the start of the file name.
const PLUMBING: &[&str] = &[
    "libcenote",
    "libcudart",
    "libcuda.",
    "libnvidia-",
    "libc.so",
    "libc-2.",
    "libpthread",
    "libdl.so",
    "libdl-2.",
    "ld-linux",
    "ld-2.",
    "ld-musl",
    "linux-vdso",
    "[vdso]",
    "[vsyscall]",
    "libstdc++",
    "libgcc_s",
    "libffi",
    "_ctypes",
];

/// Starts of file names, and who they belong to. The first match counts.
const LIBRARIES: &[(&str, &str)] = &[
    ("libtorch", "torch"),
    ("libc10", "torch"),
    ("libnccl", "nccl"),
    ("libcublas", "cublas"),
    ("libcudnn", "cudnn"),
    ("libcufft", "cufft"),
    ("libcusparse", "cusparse"),
    ("libcusolver", "cusolver"),
    ("libcurand", "curand"),
    ("libcutensor", "cutensor"),
    ("libnvJitLink", "nvjitlink"),
    ("libnvshmem", "nvshmem"),
    ("libnvinfer", "tensorrt"),
    ("libnppi", "npp"),
    ("libtriton", "triton"),
    ("libjax", "jax"),
    ("_jax", "jax"),
    ("xla_", "jax"),
    ("libxla", "jax"),
    ("pjrt_", "jax"),
    ("librmm", "rmm"),
    ("libcupy", "cupy"),
];

/// Folders that say whose a file is where its name does not: extension modules have names such as `memory.so`.
const FOLDERS: &[(&str, &str)] = &[
    ("/jaxlib/", "jax"),
    ("/jax_plugins/", "jax"),
    ("/cupy/", "cupy"),
    ("/cupy_backends/", "cupy"),
    ("/rmm/", "rmm"),
    ("/triton/", "triton"),
    ("/.triton/", "triton"),
];

/// Owners that take workspaces once and keep them, whatever the program does.
const CONSTANT: &[&str] = &[
    "cublas",
    "cudnn",
    "cufft",
    "cusparse",
    "cusolver",
    "curand",
    "cutensor",
    "nccl",
    "nvjitlink",
    "nvshmem",
];

/// Whether a file only passes requests on, so that its frames say nothing about who wanted the memory.
pub fn is_plumbing(path: &str) -> bool {
    let name = file_name(path);
    PLUMBING.iter().any(|start| name.starts_with(start))
}

/// Whether the owner is a library that takes workspaces once and keeps them.
pub fn keeps_workspaces(owner: &str) -> bool {
    CONSTANT.contains(&owner)
}

/// The owner that a module's frames point to; none for plumbing.
pub fn owner_of_module(path: &str, executable: &str) -> Option<String> {
    if is_plumbing(path) {
        return None;
    }
    let name = file_name(path);
    if path.is_empty() || path == executable || is_interpreter(name) {
        return Some(PROGRAM.to_owned());
    }
    let by_name = LIBRARIES.iter().find(|(start, _)| name.starts_with(start));
    let by_folder = || FOLDERS.iter().find(|(folder, _)| path.contains(folder));
    let known = by_name.or_else(by_folder).map(|(_, owner)| (*owner).to_owned());
    Some(known.unwrap_or_else(|| plain_name(name)))
}

fn is_interpreter(name: &str) -> bool {
    let rest = name.strip_prefix("libpython").or_else(|| name.strip_prefix("python"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `libfoo-1.so.2` is `foo`.
fn plain_name(name: &str) -> String {
    let name = name.strip_prefix("lib").unwrap_or(name);
    let name = name.split(".so").next().unwrap_or(name);
    let name = name.split(".cpython-").next().unwrap_or(name);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if name.is_empty() { UNKNOWN.to_owned() } else { name.to_owned() }
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_file() {
        let packages = "/usr/lib/python3/dist-packages";
        for (path, owner) in [
            ("/opt/cenote/libcenote.so", None),
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06", None),
            ("libcudart-8774224f.so.12.4.127", None),
            ("/lib/libc.so.6", None),
            ("[vdso]", None),
            (&format!("{packages}/torch/lib/libc10_cuda.so"), Some("torch")),
            ("libcublasLt.so.12", Some("cublas")),
            ("libcudnn_engines_precompiled.so.9", Some("cudnn")),
            ("libnvJitLink.so.13", Some("nvjitlink")),
            (&format!("{packages}/jaxlib/_jax.so"), Some("jax")),
            (&format!("{packages}/cupy/cuda/memory.cpython-312-x86_64-linux-gnu.so"), Some("cupy")),
            ("/usr/bin/python3.12", Some("program")),
            ("/usr/lib/libpython3.12.so.1.0", Some("program")),
            ("/usr/lib/libpythonish.so", Some("pythonish")),
            ("/home/me/a.out", Some("program")),
            ("/home/me/libfoo-1.2.so.3", Some("foo")),
            ("/home/me/_ext.cpython-312-x86_64-linux-gnu.so", Some("_ext")),
            ("", Some("program")),
        ] {
            let found = owner_of_module(path, "/home/me/a.out");
            assert_eq!(found.as_deref(), owner, "{path}");
        }
    }
}
