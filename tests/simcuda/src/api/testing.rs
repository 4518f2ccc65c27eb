//! What test programs call beside the driver: kernels, checks, time, and counts (`simcuda.h`).

use crate::abi::Text;
use crate::api::{entries, legacy32};
use crate::code::{Code, Outcome};
use crate::entry::DefaultStream;
use crate::gate::{exports, guarded};
use crate::operation::{Operation, refuse};
use crate::process;
use crate::settings::settings;
use crate::state::{self, Machine};
use crate::violation;

exports! {
    /// Launches a kernel that takes a while and writes `value` to a range; -1 only reads it.
    [Init] simcuda_kernel as "simcuda_kernel" 0 (
        stream: u64, duration_us: u64, to: u64, len: u64, value: i32
    ) {
        let value = match value {
            -1 => None,
            value => Some(u8::try_from(value).map_err(|_| Code::INVALID_VALUE)?),
        };
        let duration = duration_us.saturating_mul(1000);
        let mut machine = state::lock_for_launch()?;
        let stream = machine.stream_named(stream, DefaultStream::Legacy)?;
        let kernel = Operation::Kernel { duration, to, len, value };
        machine.enqueue(stream, kernel, "a kernel launch").map(drop)
    }
}

/// 1 if every byte of the range has the value once the work that uses it has ended, else 0.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_check(address: u64, len: u64, value: i32) -> i32 {
    let check = guarded("simcuda_check", || {
        let machine = unhurried()?;
        let look = |machine: &Machine| {
            let seen = machine.look(address, len);
            seen.map_err(|(place, fault)| refuse("simcuda_check", place, fault))
        };
        let idle = machine.timeline.bytes_idle_at(&look(&machine)?, machine.now());
        let machine = machine.wait_until(idle)?;
        let value = u8::try_from(value).map_err(|_| Code::INVALID_VALUE)?;
        Ok(machine.holds(&look(&machine)?, value))
    });
    i32::from(check.unwrap_or(false))
}

/// Moves the virtual clock on.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_advance(us: u64) {
    // Before cuInit there is no clock to move.
    let _ = guarded("simcuda_advance", || {
        let mut machine = unhurried()?;
        machine.clock.advance(us.saturating_mul(1000));
        machine.settle();
        Ok(())
    });
}

/// Simulated time in nanoseconds since `cuInit`.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_now() -> u64 {
    unhurried().map_or(0, |machine| machine.now())
}

/// Ends the driver: from now on every call returns `CUDA_ERROR_DEINITIALIZED`.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_shutdown() {
    process::shut_down();
}

/// How often an exported function was called; 0 for names that do not exist.
///
/// # Safety
/// The name is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simcuda_calls(name: Text) -> u64 {
    let name = name.get().unwrap_or_default();
    entries().find(|entry| entry.name == name).map_or(0, |entry| entry.calls())
}

/// How often a function of the 32-bit ABI was called.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_legacy_calls() -> u64 {
    legacy32::calls()
}

/// How many violations there were.
#[unsafe(no_mangle)]
pub extern "C" fn simcuda_violations() -> u64 {
    violation::count()
}

/// 1 if `SIMCUDA_MISSING` names the function.
///
/// # Safety
/// The name is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simcuda_is_missing(name: Text) -> i32 {
    let name = name.get().unwrap_or_default();
    i32::from(settings().missing.contains(&name))
}

/// The machine without the passing of time; a fork may have inherited its lock in any state.
fn unhurried() -> Outcome<Machine> {
    if process::is_forked() { Err(Code::NOT_INITIALIZED) } else { state::lock_silently() }
}
