//! The true `dlsym`, the mapped driver, and which library an address lies in.
//!
//! # Invariants
//! 1. Nothing here calls `dlsym` by its plain name: under the preload that is our own export.
#![expect(unsafe_code, reason = "talks to the dynamic loader")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use once_cell::race::OnceNonZeroUsize;

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// glibc's `dlsym` changed its version node in 2.34; 2.17 is the first of aarch64 and 2.2.5 that of x86-64.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

/// Address of the C library's `dlsym`; 0 if it can't be found. Neither allocates nor locks beyond the loader's own lock.
pub fn true_dlsym() -> usize {
    static ADDRESS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let found = ADDRESS.get_or_try_init(|| {
        let find = |version: &&CStr| {
            // SAFETY: both strings end in a zero byte; RTLD_NEXT is a valid handle in a loaded library.
            let at = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            NonZeroUsize::new(at as usize)
        };
        VERSIONS.iter().find_map(find).ok_or(())
    });
    found.map_or(0, NonZeroUsize::get)
}

/// Looks a name up with the true `dlsym`. The handle must come from the loader or be one of its special values.
pub fn lookup(handle: usize, name: &CStr) -> Option<usize> {
    let dlsym = true_dlsym();
    if dlsym == 0 {
        return None;
    }
    // SAFETY: the address is that of the C library's dlsym, which takes any handle that its caller was given.
    let at = unsafe {
        let dlsym: Dlsym = std::mem::transmute(dlsym);
        dlsym(handle as *mut c_void, name.as_ptr())
    };
    (!at.is_null()).then_some(at as usize)
}

/// A handle of the driver's library.
#[derive(Debug, Clone, Copy)]
pub struct MappedDriver(NonZeroUsize);

impl MappedDriver {
    /// Address of a name in it.
    pub fn symbol(self, name: &str) -> Option<usize> {
        let name = CString::new(name).ok()?;
        lookup(self.0.get(), &name)
    }
}

/// The driver's library, if the process has mapped it. It is never loaded from here.
pub fn mapped_driver() -> Option<MappedDriver> {
    static HANDLE: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let open = || {
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
        // SAFETY: the name ends in a zero byte, and with RTLD_NOLOAD no code of the library runs.
        let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
        NonZeroUsize::new(handle as usize).ok_or(())
    };
    HANDLE.get_or_try_init(open).ok().map(MappedDriver)
}

/// A function of the C++ library, if the process has loaded it.
pub fn cplusplus_function(name: &CStr) -> Option<usize> {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: the name ends in a zero byte, and with RTLD_NOLOAD no code of the library runs.
    let handle = unsafe { libc::dlopen(c"libstdc++.so.6".as_ptr(), flags) };
    if handle.is_null() {
        return None;
    }
    let found = lookup(handle as usize, name);
    // SAFETY: gives back what was just taken.
    unsafe { libc::dlclose(handle) };
    found
}

/// The file that an address is mapped from, and where it begins.
fn object_at(address: usize) -> Option<libc::Dl_info> {
    // SAFETY: all-zero is a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address and fills the struct.
    let found = unsafe { libc::dladdr(address as *const c_void, &mut info) } != 0;
    (found && !info.dli_fname.is_null()).then_some(info)
}

/// Whether the library that an address lies in finds a name of the driver in its own scope: itself and what it was linked with.
pub fn scope_of_has_driver_name(address: usize, name: &CStr) -> bool {
    let Some(info) = object_at(address) else { return false };
    if is_main_program(info.dli_fbase as usize) {
        return false;
    }
    // SAFETY: the loader's own name of a library that is mapped; with RTLD_NOLOAD no code of it runs.
    let handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return false;
    }
    let found = lookup(handle as usize, name).is_some_and(in_driver);
    // SAFETY: gives back what was just taken.
    unsafe { libc::dlclose(handle) };
    found
}

/// Load base and path of the library that an address lies in.
pub fn module_at(address: usize) -> Option<(usize, PathBuf)> {
    let info = object_at(address)?;
    // SAFETY: the loader's file names end in a zero byte and live as long as the library is mapped, which it is while
    // somebody can pass an address in it.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some((info.dli_fbase as usize, std::ffi::OsString::from_vec(name.to_bytes().to_vec()).into()))
}

/// Whether an address lies in the driver's library. Takes no memory: it is asked inside `dlsym`.
pub fn in_driver(address: usize) -> bool {
    let Some(info) = object_at(address) else { return false };
    // SAFETY: as in `module_at`.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    let file = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    file.starts_with(b"libcuda.so")
}

/// Whether an address lies in the same library as this code.
pub fn in_this_library(address: usize) -> bool {
    let here = object_at(in_this_library as *const () as usize);
    match (here, object_at(address)) {
        (Some(here), Some(there)) => here.dli_fbase == there.dli_fbase,
        _ => false,
    }
}

/// Load base and length in memory of the library that an address lies in.
pub fn extent(address: usize) -> Option<(usize, usize)> {
    struct Search {
        address: usize,
        found: Option<(usize, usize)>,
    }
    /// # Safety
    /// Called by the loader, with the `Search` that was passed.
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the Search below, and nobody else refers to it during the walk.
        let search = unsafe { &mut *data.cast::<Search>() };
        // SAFETY: the loader passes a valid description.
        let info = unsafe { &*info };
        // SAFETY: it has that many program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let limits = loaded.map(|h| (h.p_vaddr as usize, (h.p_vaddr + h.p_memsz) as usize));
        let limits = limits.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let Some((begin, end)) = limits else { return 0 };
        let bias = info.dlpi_addr as usize;
        if (bias + begin..bias + end).contains(&search.address) {
            search.found = Some((bias + begin, end - begin));
            return 1;
        }
        0
    }
    let mut search = Search { address, found: None };
    // SAFETY: `each` matches the type that the loader calls, and `search` outlives the walk.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut search).cast()) };
    search.found
}

/// Whether the program itself is loaded at this base.
pub fn is_main_program(base: usize) -> bool {
    // SAFETY: getauxval has no preconditions.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    extent(headers).is_some_and(|(main, _)| main == base)
}

/// Keeps the library that an address lies in loaded for good.
pub fn stay(address: usize) {
    let Some(info) = object_at(address) else { return };
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the loader's own name of a library that is mapped; with RTLD_NOLOAD no code of it runs.
    unsafe { libc::dlopen(info.dli_fname, flags) };
}
