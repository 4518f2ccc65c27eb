//! `libcenote.so`: finding it, checking it before a job is put under it, and the environment that puts a job under it.
//!
//! The loader ignores a library that it can't preload, with one line that is easily missed. So what it would find wrong is
//! looked for here first.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use cenote::conf;
use cenote::report::Template;
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Architecture, Endianness, Object, ObjectKind};

use crate::exit::{CANNOT_START, Failure};

const NAME: &str = "libcenote.so";

/// The library: the one that is named, else the one beside this program, in `../lib` or `../lib/cenote`.
pub(crate) fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let cannot = |message: String| Failure::new(CANNOT_START, message);
    let path = match named {
        Some(path) => path.to_owned(),
        None => installed().ok_or_else(|| {
            cannot(format!(
                "can't find {NAME}: it is neither beside this program nor in ../lib; \
                            say where with --library or CENOTE_LIBRARY"
            ))
        })?,
    };
    let path = fs::canonicalize(&path)
        .map_err(|error| cannot(format!("can't open {}: {error}", path.display())))?;
    check(&path).map_err(|what| cannot(format!("can't preload {}: {what}", path.display())))?;
    Ok(path)
}

fn installed() -> Option<PathBuf> {
    let program = fs::canonicalize(env::current_exe().ok()?).ok()?;
    let folder = program.parent()?;
    let places = ["", "../lib", "../lib/cenote", "../lib64"];
    places.iter().map(|place| folder.join(place).join(NAME)).find(|path| path.is_file())
}

/// What the loader would find wrong with the library.
fn check(path: &Path) -> Result<(), String> {
    let text = path.to_str().ok_or("its path is not UTF-8")?;
    if text.contains([' ', ':']) {
        return Err(
            "LD_PRELOAD takes no path with a blank or a colon; copy it elsewhere".to_owned()
        );
    }
    let data = fs::read(path).map_err(|error| error.to_string())?;
    let elf = ElfFile64::<Endianness>::parse(&*data)
        .map_err(|_| "it is no 64-bit ELF file".to_owned())?;
    if elf.kind() != ObjectKind::Dynamic {
        return Err("it is no shared library".to_owned());
    }
    if !is_this_machine(elf.architecture()) {
        return Err(format!(
            "it is built for {:?}, this is {}",
            elf.architecture(),
            env::consts::ARCH
        ));
    }
    if let (Some(needed), Some(have)) = (glibc_needed(&elf), glibc_of_this_machine())
        && needed > have
    {
        let ((n0, n1), (h0, h1)) = (needed, have);
        return Err(format!("it needs glibc {n0}.{n1}, this machine has {h0}.{h1}"));
    }
    Ok(())
}

/// Whether code for the architecture runs here.
pub(crate) fn is_this_machine(architecture: Architecture) -> bool {
    match env::consts::ARCH {
        "x86_64" => architecture == Architecture::X86_64,
        "aarch64" => architecture == Architecture::Aarch64,
        _ => true,
    }
}

/// The newest glibc version that the file's imports name.
pub(crate) fn glibc_needed(elf: &ElfFile64<'_, Endianness>) -> Option<(u32, u32)> {
    let imports = versions(elf);
    imports.into_iter().max()
}

/// The newest version that this machine's libc defines.
pub(crate) fn glibc_of_this_machine() -> Option<(u32, u32)> {
    let folders = [
        "/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ];
    let path =
        folders.iter().map(|folder| Path::new(folder).join("libc.so.6")).find(|p| p.is_file())?;
    let data = fs::read(path).ok()?;
    versions(&ElfFile64::<Endianness>::parse(&*data).ok()?).into_iter().max()
}

/// Every `GLIBC_x.y` in the table of dynamic strings, where the names of both needed and defined versions are.
fn versions(elf: &ElfFile64<'_, Endianness>) -> BTreeSet<(u32, u32)> {
    let (endian, data) = (elf.endian(), elf.data());
    let Ok(sections) = elf.elf_header().sections(endian, data) else { return BTreeSet::new() };
    let strings =
        sections.iter().filter(|section| sections.section_name(endian, section) == Ok(b".dynstr"));
    let strings = strings.filter_map(|section| section.data(endian, data).ok());
    let names = strings.flat_map(|strings| strings.split(|&byte| byte == 0));
    names.filter_map(|name| glibc_version(std::str::from_utf8(name).ok()?)).collect()
}

fn glibc_version(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.').map(str::parse::<u32>);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// What puts a job under the library.
#[derive(Debug)]
pub(crate) struct Environment {
    preload: String,
    conf: String,
    output: Option<String>,
}

impl Environment {
    /// From the options of `cenote run` and what the environment has already; an option wins over it.
    pub(crate) fn new(
        library: &Path,
        conf: &[String],
        output: Option<&str>,
    ) -> anyhow::Result<Self> {
        let library = library.to_string_lossy();
        let before = env::var("LD_PRELOAD").unwrap_or_default();
        let others =
            before.split([':', ' ']).filter(|&entry| !entry.is_empty() && entry != library);
        let preload: Vec<&str> = std::iter::once(&*library).chain(others).collect();
        let before = env::var("CENOTE_CONF").unwrap_or_default();
        // Of two pairs with one key the later counts.
        let pairs = std::iter::once(before.as_str()).chain(conf.iter().map(String::as_str));
        let pairs: Vec<_> =
            pairs.map(|pair| pair.trim_matches(',')).filter(|pair| !pair.is_empty()).collect();
        let output = output.map(absolute).transpose()?;
        Ok(Environment { preload: preload.join(":"), conf: pairs.join(","), output })
    }

    /// What switches cenote off, if anything does.
    pub(crate) fn switched_off(&self) -> Option<&'static str> {
        let by_mode = || conf::parse(&self.conf).0.mode == conf::Mode::Off;
        is_disabled().then_some("CENOTE_DISABLE").or_else(|| by_mode().then_some("mode:off"))
    }

    /// Says what of the configuration can't be used. With `strict:true`, that is a failure.
    pub(crate) fn warn_of_problems(&self) -> Result<(), Failure> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let (settings, mut problems) = conf::parse_with(&self.conf, variable);
        let output = self.output.clone().or_else(|| env::var("CENOTE_OUTPUT").ok());
        problems.extend(Template::problems(&output.unwrap_or_default()));
        for problem in &problems {
            anstream::eprintln!("cenote: {problem}");
        }
        if settings.strict && !problems.is_empty() {
            return Err(Failure::new(
                CANNOT_START,
                "not started, because of strict:true in CENOTE_CONF",
            ));
        }
        Ok(())
    }

    /// Names and values.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("LD_PRELOAD", self.preload.clone())];
        if !self.conf.is_empty() {
            variables.push(("CENOTE_CONF", self.conf.clone()));
        }
        variables.extend(self.output.clone().map(|output| ("CENOTE_OUTPUT", output)));
        variables
    }
}

/// Whether `CENOTE_DISABLE` is set, as the library takes it.
pub(crate) fn is_disabled() -> bool {
    env::var_os("CENOTE_DISABLE").is_some_and(|value| !value.is_empty() && value != "0")
}

/// The same place, whatever folder the job changes to.
fn absolute(output: &str) -> anyhow::Result<String> {
    // A variable may hold an absolute path.
    if output.starts_with(['/', '%']) {
        return Ok(output.to_owned());
    }
    let folder = env::current_dir()?;
    let folder = folder.to_str().map(|folder| folder.replace('%', "%%"));
    Ok(folder.map_or_else(|| output.to_owned(), |folder| format!("{folder}/{output}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc() {
        assert_eq!(glibc_version("GLIBC_2.34"), Some((2, 34)));
        assert_eq!(glibc_version("GLIBC_2.2.5"), Some((2, 2)));
        assert_eq!(glibc_version("GLIBC_PRIVATE"), None);
        assert!(glibc_of_this_machine().is_none_or(|version| version > (2, 20)));
    }
}
