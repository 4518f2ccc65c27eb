//! Where the built things lie, and the compiler for the programs of `tests/native`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::SystemTime;

/// The root of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of everything built.
pub fn stage() -> PathBuf {
    let stage = std::env::var_os("CENOTE_STAGE")
        .map_or_else(|| repository().join("target/stage"), PathBuf::from);
    for file in ["sim/libcuda.so.1", "sim-old/libcuda.so.1", "libcenote.so"] {
        assert!(
            stage.join(file).exists(),
            "{}/{file} is missing: run scripts/build first",
            stage.display()
        );
    }
    stage
}

/// The program or library `name` of `tests/native`, compiled where it is missing or older than its source.
///
/// A line `// build: FLAGS` at the head of the source adds flags to the compiler; `nolink` there leaves libcuda.so.1 out,
/// and `-shared` makes a library. Tests that run at once may compile the same program: each writes a file of its own and
/// moves it into place.
pub fn native(name: &str) -> PathBuf {
    compiled(name, name, &[])
}

/// The same, as `program` and with further flags.
pub fn compiled(name: &str, program: &str, more_flags: &[&OsStr]) -> PathBuf {
    let stage = stage();
    let sources = repository().join("tests/native");
    let source = ["c", "cpp"]
        .map(|extension| sources.join(name).with_extension(extension))
        .into_iter()
        .find(|source| source.exists())
        .unwrap_or_else(|| panic!("tests/native has no {name}.c or {name}.cpp"));
    let program = stage.join("native").join(program);
    let headers = fs::read_dir(&sources).unwrap().map(|entry| entry.unwrap().path());
    let mut made_of: Vec<_> =
        headers.filter(|path| path.extension() == Some(OsStr::new("h"))).collect();
    made_of.extend([
        source.clone(),
        sources.join("../simcuda/simcuda.h"),
        stage.join("sim/libcuda.so.1"),
    ]);
    if modified(&program)
        .is_some_and(|built| made_of.iter().all(|part| modified(part) <= Some(built)))
    {
        return program;
    }
    fs::create_dir_all(stage.join("native")).unwrap();
    static COMPILED: AtomicU32 = AtomicU32::new(0);
    let own = (std::process::id(), COMPILED.fetch_add(1, Relaxed));
    let unfinished = program.with_extension(format!("{}.{}.tmp", own.0, own.1));
    let mut compiler =
        Command::new(if source.extension() == Some(OsStr::new("c")) { "gcc" } else { "g++" });
    compiler.args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-Wl,-z,lazy", "-o"]);
    let flags = flags(&source);
    compiler.arg(&unfinished).arg(&source).args(flags.iter().filter(|flag| *flag != "nolink"));
    compiler.args(more_flags);
    if !flags.iter().any(|flag| flag == "nolink") {
        compiler.arg("-L").arg(stage.join("sim")).arg("-l:libcuda.so.1");
    }
    let built = compiler.arg("-ldl").output().expect("a C compiler is needed");
    assert!(
        built.status.success(),
        "{name} does not compile:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    fs::rename(&unfinished, &program).unwrap();
    program
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

fn flags(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source).unwrap();
    let line = text.lines().take(8).find_map(|line| line.strip_prefix("// build: "));
    line.unwrap_or("").split_whitespace().map(str::to_owned).collect()
}
