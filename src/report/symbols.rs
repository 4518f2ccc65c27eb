//! Names of functions for addresses in a module, from the symbol table of its file.
//!
//! Libraries of a gigabyte and more are common here, and the job waits while its report is made: only the parts of the
//! file that hold symbols are read, once for all addresses of the module.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, SymbolKind, elf};

type Elf<'data> = ElfFile64<'data, Endianness, &'data ReadCache<File>>;

/// The functions that hold the given return addresses: offsets from the module's base, sorted. None for each where the
/// file is gone, has changed since the process began, or does not say.
pub(super) fn names(path: &str, returns: &[u64], started_unix_ns: u64) -> Vec<Option<String>> {
    let found = open(path, started_unix_ns).map(ReadCache::new);
    let names = found.as_ref().and_then(|cache| look_up(&Elf::parse(cache).ok()?, returns));
    names.unwrap_or_else(|| vec![None; returns.len()])
}

/// Opens the file if it is one (not a device or a pipe, on which reading could hang), and the one that was loaded.
fn open(path: &str, started_unix_ns: u64) -> Option<File> {
    let metadata = std::fs::metadata(path).ok().filter(|metadata| metadata.is_file())?;
    let changed = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    if started_unix_ns != 0 && changed > i128::from(started_unix_ns) {
        return None;
    }
    File::open(path).ok()
}

fn look_up(file: &Elf<'_>, returns: &[u64]) -> Option<Vec<Option<String>>> {
    let lowest = lowest_address(file)?;
    // A return address follows its call; the call may be the last instruction of its function.
    let call = |&offset: &u64| offset.saturating_sub(1).saturating_add(lowest);
    let mut search = Search::new(returns.iter().map(call).collect());
    search.pass(file.symbols());
    if search.found.iter().any(Option::is_none) {
        search.pass(file.dynamic_symbols());
    }
    Some(search.found.into_iter().map(|found| Some(found?.name)).collect())
}

/// The linker's address of the place where the file's first page was mapped.
fn lowest_address(file: &Elf<'_>) -> Option<u64> {
    let endian = file.endian();
    let loads = file.elf_program_headers().iter();
    let loads = loads.filter(|header| header.p_type(endian) == elf::PT_LOAD);
    loads.map(|header| header.p_vaddr(endian) & !0xfff).min()
}

struct Found {
    start: u64,
    name: String,
}

/// Wanted addresses, and the closest function that was found for each.
struct Search {
    wanted: Vec<u64>,
    found: Vec<Option<Found>>,
}

impl Search {
    fn new(wanted: Vec<u64>) -> Self {
        let found = wanted.iter().map(|_| None).collect();
        Search { wanted, found }
    }

    /// Goes through a symbol table once.
    fn pass<'data>(&mut self, symbols: impl Iterator<Item = impl ObjectSymbol<'data>>) {
        for symbol in symbols.filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let (start, end) = (symbol.address(), symbol.address().saturating_add(symbol.size()));
            let first = self.wanted.partition_point(|&address| address < start);
            let within = self.wanted[first..].iter().take_while(|&&address| address < end).count();
            for found in &mut self.found[first..first + within] {
                if found.as_ref().is_none_or(|found| found.start < start)
                    && let Ok(name) = symbol.name()
                {
                    *found = Some(Found { start, name: name.to_owned() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_no_names() {
        assert_eq!(names("/nowhere", &[1, 2], 0), [None, None]);
        assert_eq!(names("/dev/zero", &[1], 0), [None]);
        assert_eq!(names("[vdso]", &[1], 0), [None]);
    }

    #[test]
    fn this_test_finds_itself() {
        let path = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
        let base = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let here = no_file_no_names as *const () as u64 - base;
        let found = names(path.to_str().unwrap(), &[here + 1], 0);
        assert!(found[0].as_ref().unwrap().contains("no_file_no_names"), "{found:?}");
        assert_eq!(names(path.to_str().unwrap(), &[here + 1], 1), [None], "changed since 1970");
    }
}
