//! The end of contexts. Their memory goes with them, and the driver may give the same handle to the next one.
#![allow(non_snake_case, reason = "the driver's own names")]

use super::super::contexts::Context;
use super::super::process::{Process, lock};
use crate::cuda::{ContextHandle, CuResult, real};

impl Process {
    /// Runs a call that ends contexts, while nobody works on them from outside of a call of the program.
    fn ending(
        &'static self,
        contexts: &[&'static Context],
        call: impl FnOnce() -> CuResult,
    ) -> CuResult {
        let held: Vec<_> = contexts.iter().map(|context| lock(&context.maintenance)).collect();
        let code = call();
        drop(held);
        code
    }

    fn ending_primary(
        &'static self,
        device: i32,
        is_reset: bool,
        call: impl FnOnce() -> CuResult,
    ) -> CuResult {
        let contexts = self.endangered(|context| i64::from(context.device) == i64::from(device));
        let code = self.ending(&contexts, call);
        if code.is_ok() {
            self.check_contexts(&contexts, is_reset);
        }
        code
    }
}

pub(in super::super) unsafe fn cuCtxDestroy_v2(
    process: &'static Process,
    context: ContextHandle,
) -> CuResult {
    let contexts = process.endangered(|other| other.handle == context);
    // SAFETY: the program's own argument.
    let code = process.ending(&contexts, || unsafe { real::cuCtxDestroy_v2(context) });
    if code.is_ok() {
        contexts.into_iter().for_each(|context| process.context_died(context));
    }
    code
}

macro_rules! primary {
    ($($name:ident: $is_reset:literal;)*) => {$(
        pub(in super::super) unsafe fn $name(process: &'static Process, device: i32) -> CuResult {
            // SAFETY: the program's own argument.
            process.ending_primary(device, $is_reset, || unsafe { real::$name(device) })
        }
    )*};
}

primary! {
    cuDevicePrimaryCtxRelease: false;
    cuDevicePrimaryCtxRelease_v2: false;
    cuDevicePrimaryCtxReset: true;
    cuDevicePrimaryCtxReset_v2: true;
}
