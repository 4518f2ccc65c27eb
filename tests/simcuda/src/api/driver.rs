//! Initialisation, version, errors, export tables.

use std::ffi::{CStr, c_char, c_void};

use crate::abi::{Out, Uuid};
use crate::code::{Code, Outcome};
use crate::gate::exports;
use crate::process;
use crate::settings::settings;
use crate::state;
use crate::violation::violation;

exports! {
    [Nothing] cuInit as "cuInit" 2000 (flags: u32) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if settings().devices == 0 {
            return Err(Code::NO_DEVICE);
        }
        state::start(settings())?;
        process::initialise();
        if settings().self_dlsym {
            resolve_itself();
        }
        Ok(())
    }

    [Nothing] cuDriverGetVersion as "cuDriverGetVersion" 2020 (version: Out<i32>) {
        version.set(settings().driver_version)
    }

    [Nothing] cuGetErrorName as "cuGetErrorName" 6000 (error: u32, text: Out<*const c_char>) {
        give_text(Code(error).name(), text)
    }

    [Nothing] cuGetErrorString as "cuGetErrorString" 6000 (error: u32, text: Out<*const c_char>) {
        give_text(Code(error).text(), text)
    }

    /// The real driver's tables are private to its runtime; there are none here.
    [Nothing] cuGetExportTable as "cuGetExportTable" 3000 (
        table: Out<*const c_void>, id: *const Uuid
    ) {
        table.set_if_wanted(std::ptr::null());
        Err(Code::NOT_FOUND)
    }
}

fn give_text(text: Option<&'static CStr>, out: Out<*const c_char>) -> Outcome {
    out.set(text.map_or(std::ptr::null(), CStr::as_ptr))?;
    if text.is_some() { Ok(()) } else { Err(Code::INVALID_VALUE) }
}

/// Looks "cuInit" up in this library's own handle, as the driver of WSL does. A hooked `dlsym`
/// must answer with the driver's own function to the driver itself.
fn resolve_itself() {
    let own = cuInit as *const c_void;
    // SAFETY: all zero is a valid `Dl_info`; it is written by dladdr.
    let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about, and `about` is valid for the write.
    let known = unsafe { libc::dladdr(own, &mut about) };
    if known == 0 || about.dli_fname.is_null() {
        return;
    }
    // SAFETY: dladdr gave the path of a loaded object, which NOLOAD only looks up.
    let handle = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    // SAFETY: the handle is NULL, which means the whole process, or one that dlopen gave.
    let found = unsafe { libc::dlsym(handle, c"cuInit".as_ptr()) };
    if !std::ptr::eq(found, own) {
        violation!(
            "dlsym of cuInit from inside the driver gave {found:p}, not the driver's own {own:p}"
        );
    }
}
