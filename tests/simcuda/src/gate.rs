//! What surrounds every exported function: counting, injected faults, the driver's life, the call
//! log, and no panic across the ABI.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::Argument;
use crate::code::{Code, Outcome};
use crate::entry::Entry;
use crate::log;
use crate::process;
use crate::settings::settings;
use crate::violation::violation;

/// What a function needs before it can work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    Init,
}

/// A function's arguments, by name.
pub(crate) type Arguments<'a> = &'a [(&'static str, &'a dyn Argument)];

/// Runs a function's body.
pub(crate) fn call(
    entry: &'static Entry,
    needs: Needs,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> Outcome,
) -> u32 {
    let nth = entry.count();
    let outcome = process::check(entry.name, needs == Needs::Init).and_then(|()| {
        let outcome =
            settings().faults.apply(entry.name, nth).and_then(|()| guarded(entry.name, body));
        if outcome.is_err() {
            arguments.iter().for_each(|(_, argument)| argument.failed());
        }
        outcome
    });
    let code = outcome.err().unwrap_or(Code::SUCCESS);
    log::call(entry.name, code, || {
        let shown = arguments
            .iter()
            .map(|(name, value)| format!("{name}={}", value.show(code == Code::SUCCESS)));
        shown.collect::<Vec<_>>().join(" ")
    });
    code.0
}

/// Runs a body whose panic must not reach the caller.
pub(crate) fn guarded<T>(name: &str, body: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        violation!("the simulator panicked in {name}");
        Err(Code::UNKNOWN)
    })
}

/// Declares exported functions: attributes, then
/// `[needs] name as "asked" since (arguments) { body }`.
///
/// Each becomes an `extern "C"` function that runs its body inside [`call`], and an [`Entry`] in
/// the module's `ENTRIES`. The body gives an [`Outcome`].
macro_rules! exports {
    ($(
        $(#[$meta:meta])*
        [$needs:ident] $name:ident as $asked:literal $since:literal
        ($($arg:ident: $kind:ty),* $(,)?) $body:block
    )*) => {
        #[allow(non_camel_case_types, reason = "named after the driver's functions")]
        #[allow(clippy::enum_variant_names, reason = "named after the driver's functions")]
        enum Place { $($name),* }

        /// This file's functions.
        pub(crate) static ENTRIES: [$crate::entry::Entry; [$(stringify!($name)),*].len()] = [$(
            $crate::entry::Entry::new(
                stringify!($name), $asked, $since, $name as *const std::ffi::c_void,
            )
        ),*];

        $(
            $(#[$meta])*
            ///
            /// # Safety
            /// As the driver's header says: pointers are NULL or valid for the call.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $kind),*) -> u32 {
                let entry = &ENTRIES[Place::$name as usize];
                let arguments: $crate::gate::Arguments<'_> = &[$((stringify!($arg), &$arg)),*];
                $crate::gate::call(entry, $crate::gate::Needs::$needs, arguments, || $body)
            }
        )*
    };
}
pub(crate) use exports;
