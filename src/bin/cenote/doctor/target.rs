//! The program: whether the loader would preload anything into it, and through which door it reaches the driver.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, elf};

use super::Check;
use crate::library::is_this_machine;
use crate::program;

/// Interpreters of interpreters of scripts: as deep as the kernel goes.
const SCRIPTS: usize = 4;
/// Bytes of a program that are searched for names.
const SEARCHED: u64 = 512 << 20;
/// What a program with the CUDA runtime inside holds: the name under which that opens the driver.
const DRIVER_NAME: &[u8] = b"libcuda.so.1";

pub(super) fn check(program: &str) -> Vec<Check> {
    let mut path = match program::find(program) {
        Ok(path) => path,
        Err(problem) => return vec![Check::fail("program", problem.text, problem.remedy)],
    };
    let mut checks = Vec::new();
    for _ in 0..SCRIPTS {
        let Some((interpreter, script)) = interpreter(&path) else { break };
        checks.push(Check::ok(
            "program",
            format!("{} is a script, run by {interpreter}", path.display()),
        ));
        match program::find(&script) {
            Ok(found) => path = found,
            Err(problem) => {
                let remedy = "install it, or mend the first line of the script";
                checks.push(Check::fail("program", problem.text, remedy));
                return checks;
            }
        }
    }
    checks.extend(privileges(&path));
    match fs::read(&path) {
        Ok(data) => checks.extend(binary(&path, &data)),
        Err(error) => checks.push(Check::warn(
            "program",
            format!("can't read {}: {error}", path.display()),
            "",
        )),
    }
    checks
}

/// The first line of a script: as written, and the program that it comes down to.
fn interpreter(path: &Path) -> Option<(String, String)> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).trim().to_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    let by_env = first
        .ends_with("/env")
        .then(|| words.find(|word| !word.starts_with('-') && !word.contains('=')));
    let program = by_env.flatten().unwrap_or(first).to_owned();
    Some((line, program))
}

/// The loader preloads nothing into a program that has more rights than its user.
fn privileges(path: &Path) -> Option<Check> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o6000 != 0).then(|| {
        Check::fail(
            "program",
            format!("{} is setuid or setgid: the loader ignores LD_PRELOAD", path.display()),
            "run a copy without these bits",
        )
    })
}

fn binary(path: &Path, data: &[u8]) -> Vec<Check> {
    let name = path.display();
    let Ok(elf) = ElfFile64::<Endianness>::parse(data) else {
        let remedy = "cenote is for 64-bit ELF programs";
        return vec![Check::fail("program", format!("{name} is no 64-bit ELF program"), remedy)];
    };
    if !is_this_machine(elf.architecture()) {
        let text = format!("{name} is built for {:?}", elf.architecture());
        return vec![Check::fail("program", text, "use a build for this machine")];
    }
    let endian = elf.endian();
    let loader = elf
        .elf_program_headers()
        .iter()
        .find_map(|header| header.interpreter(endian, data).ok()?);
    let Some(loader) = loader else {
        return vec![Check::fail(
            "program",
            format!("{name} is linked statically: LD_PRELOAD has no effect"),
            "link it dynamically (at least libc)",
        )];
    };
    if String::from_utf8_lossy(loader).contains("musl") {
        return vec![Check::fail(
            "program",
            format!("{name} runs on musl, and the library needs glibc"),
            "use a glibc build or image",
        )];
    }
    let linked = Linked::of(&elf);
    let mut checks = vec![door(&name.to_string(), &linked, data)];
    checks.extend(linked.run_path_with_driver().map(|folder| Check::warn(
        "program",
        format!("its run path {folder} holds a libcuda.so.1, which is loaded instead of the driver's"),
        "remove that file: it is a stub, or from another driver",
    )));
    checks
}

/// How the program reaches the driver.
fn door(name: &str, linked: &Linked, data: &[u8]) -> Check {
    let needs = |start: &str| linked.needed.iter().find(|library| library.starts_with(start));
    let searched = &data[..data.len().min(SEARCHED as usize)];
    if let Some(runtime) = needs("libcudart") {
        Check::ok(
            "program",
            format!("{name} uses {runtime}: seen through the driver entry points that it looks up"),
        )
    } else if let Some(driver) = needs("libcuda.so") {
        Check::ok("program", format!("{name} uses {driver} itself: seen by name"))
    } else if contains(searched, DRIVER_NAME) {
        Check::ok(
            "program",
            format!(
                "{name} opens the driver itself, or has the runtime inside: seen through the entry points that it looks up"
            ),
        )
    } else {
        Check::ok(
            "program",
            format!(
                "{name} does not name CUDA; it can be preloaded, and what it loads or starts is seen"
            ),
        )
    }
}

fn contains(data: &[u8], wanted: &[u8]) -> bool {
    let first = wanted[0];
    let mut rest = data;
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        if rest[at..].starts_with(wanted) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// What the dynamic section says.
struct Linked {
    needed: Vec<String>,
    run_paths: Vec<String>,
}

impl Linked {
    fn of(elf: &ElfFile64<'_, Endianness>) -> Self {
        let mut linked = Linked { needed: Vec::new(), run_paths: Vec::new() };
        let (endian, data) = (elf.endian(), elf.data());
        let Ok(sections) = elf.elf_header().sections(endian, data) else { return linked };
        let Ok(Some((entries, strings))) = sections.dynamic(endian, data) else { return linked };
        let strings = sections.strings(endian, data, strings).unwrap_or_default();
        for entry in entries {
            let text =
                || Some(String::from_utf8_lossy(entry.string(endian, strings).ok()?).into_owned());
            let tag: u64 = entry.d_tag(endian);
            if tag == u64::from(elf::DT_NEEDED) {
                linked.needed.extend(text());
            } else if tag == u64::from(elf::DT_RPATH) || tag == u64::from(elf::DT_RUNPATH) {
                linked
                    .run_paths
                    .extend(text().iter().flat_map(|paths| paths.split(':')).map(str::to_owned));
            }
        }
        linked
    }

    fn run_path_with_driver(&self) -> Option<&String> {
        self.run_paths.iter().find(|folder| Path::new(folder).join("libcuda.so.1").is_file())
    }
}
