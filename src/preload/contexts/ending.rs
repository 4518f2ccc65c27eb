//! A context that ends, or whose memory others may reach.

use std::sync::atomic::Ordering::{Relaxed, Release};

use super::super::process::{Process, lock};
use super::super::trace;
use super::{Context, id_of, primary_is_active};
use crate::cuda::ContextHandle;
use crate::cuda::table::{self, Function};
use crate::ledger::{EventKind, Happening, Kind};

impl Process {
    /// Other contexts may reach memory of this one, which may not have been seen yet.
    pub(in super::super) fn others_may_reach(&self, handle: ContextHandle) {
        let mut reachable = lock(&self.contexts.reachable);
        if reachable.contains(&handle) {
            return;
        }
        reachable.push(handle);
        drop(reachable);
        self.contexts.each_living(|context| {
            if context.handle == handle {
                context.pool.stop_recycling();
            }
        });
        self.events.note("shared_between_contexts", || {
            "memory of a context may be used by another: freed blocks of it go straight back to the driver".to_owned()
        });
    }

    /// Buries those contexts that a reset or a release of the device's primary context ended.
    pub(in super::super) fn check_contexts(
        &'static self,
        contexts: &[&'static Context],
        was_reset: bool,
    ) {
        self.contexts.epoch.fetch_add(1, Release);
        for &context in contexts {
            let ended = context.is_primary && (was_reset || !primary_is_active(context.device));
            let replaced = context.is_primary
                && table::has(Function::cuCtxGetId)
                && id_of(context.handle) != Some(context.id);
            if ended || replaced {
                self.context_died(context);
            }
        }
    }

    /// A context is gone and its memory with it.
    pub(in super::super) fn context_died(&self, context: &'static Context) {
        if !context.alive.swap(false, Relaxed) {
            return;
        }
        self.contexts.epoch.fetch_add(1, Release);
        self.captures_died(context);
        let (_, reserved) = context.pool.bury();
        self.budget(context.device).put_back(reserved);
        let dies = |kind| matches!(kind, Kind::Pooled | Kind::Direct | Kind::Managed | Kind::Host);
        let lost = self.live.drain(|block| block.home == context.index && dies(block.kind));
        let mut bytes = 0;
        for (address, block) in &lost {
            trace::freed(*address);
            self.forget(block);
            bytes += block.bytes;
        }
        if !lost.is_empty() {
            let text = format!("a context ended with {} live blocks, {bytes} bytes", lost.len());
            let mut event = Happening::new(EventKind::LostWithContext, self.age_ns(), text);
            event.device = Some(context.device);
            event.requested_bytes = Some(bytes);
            self.events.happened(event);
        }
        context.is_buried.store(true, Release);
    }
}
