//! The last steps before an allocation is refused, and the account that is written when it is.

use std::sync::atomic::Ordering::Relaxed;

use super::super::contexts::Context;
use super::super::process::{Phase, Process, lock, phase};
use super::super::{dump, shared, stack};
use crate::cuda::{CuResult, real};
use crate::ledger::{EventKind, EventState, Happening};
use crate::report::Reason;

/// How often a call is made again after an out of memory.
const RETRIES: usize = 4;
/// Sites that are named as holders.
const HOLDERS: usize = 8;

impl Process {
    /// Takes `bytes` from the budget of the device; if they are not there, after every pool of the device gave back what it
    /// could, and then the engine of the C API.
    pub(in super::super) fn take_budget(&self, device: u32, bytes: u64) -> bool {
        let budget = self.budget(device);
        budget.take(bytes)
            || {
                self.release_device(device);
                budget.take(bytes)
            }
            || (shared::trim_above(device) && budget.take(bytes))
    }

    /// Every pool of a device gives back what is cached.
    pub(in super::super) fn release_device(&self, device: u32) {
        if phase() != Phase::Awake {
            return;
        }
        self.contexts.each_living(|context| {
            if context.device == device {
                let _maintenance = lock(&context.maintenance);
                if context.is_alive() {
                    context.pool.release_all();
                }
            }
        });
    }

    /// Calls the driver for memory that the pool does not serve. If it has none, the pools give back what they can and it is
    /// asked again.
    pub(in super::super) fn with_retry(
        &self,
        device: u32,
        mut call: impl FnMut() -> CuResult,
    ) -> CuResult {
        let code = call();
        if code == CuResult::OUT_OF_MEMORY { self.retry(device, code, call) } else { code }
    }

    /// Calls again after an out of memory, when the pools gave back what they could. Whatever that was: another thread may have given
    /// back meanwhile.
    pub(in super::super) fn retry(
        &self,
        device: u32,
        code: CuResult,
        mut call: impl FnMut() -> CuResult,
    ) -> CuResult {
        if self.captures.count() > 0 {
            return code;
        }
        let here = self.living_contexts(|context| context.device == device);
        let _pressed: Vec<_> = here.iter().map(|context| context.pool.press()).collect();
        let returned = || self.books.device(device).pool.driver_frees.load(Relaxed);
        // More than once, while anything comes back: another thread may be on its way between the books and the driver.
        for _ in 0..RETRIES {
            let before = returned();
            self.release_device(device);
            let code = call();
            if code != CuResult::OUT_OF_MEMORY {
                return code;
            }
            if returned() == before {
                break;
            }
        }
        if shared::trim_above(device) { call() } else { code }
    }

    /// An allocation is refused: writes the account, and the report.
    pub(in super::super) fn refuse(&self, context: Option<&Context>, bytes: u64) {
        let device = context.map_or(0, |context| context.device);
        let book = self.books.device(device);
        book.pool.out_of_memory.fetch_add(1, Relaxed);
        let (mut free, mut total) = (0, 0);
        if phase() == Phase::Awake {
            // SAFETY: both are valid for the write.
            unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) };
        }
        let state = EventState {
            live_bytes: book.live.get(),
            reserved_bytes: book.pool.reserved.get(),
            free_bytes: book.pool.cached.get() + book.pool.waiting.get(),
            largest_free_bytes: context.map_or(0, |context| context.pool.largest_ready_bytes()),
            driver_free_bytes: free as u64,
            limit_bytes: self.budget(device).limit(),
        };
        let text = format!(
            "{bytes} bytes asked on device {device}: {} live, {} free in the pool, {} free on the device",
            state.live_bytes, state.free_bytes, state.driver_free_bytes
        );
        let mut event = Happening::new(EventKind::OutOfMemory, self.age_ns(), text);
        event.device = Some(device);
        event.requested_bytes = Some(bytes);
        event.state = Some(state);
        event.holders = self.holders(device);
        event.stack = stack::walk();
        self.events.happened(event);
        tracing::warn!(bytes, device, "out of memory");
        if total > 0 {
            self.take_sample(device, free as u64, total as u64);
        }
        dump::out_of_memory(self, Reason::OutOfMemory);
    }

    fn holders(&self, device: u32) -> Vec<(u32, u64, u64)> {
        let live =
            |site: &crate::ledger::SiteSlot| (site.live.get(), site.live_blocks.load(Relaxed));
        let here = self.sites().iter().filter(|(_, site)| {
            site.device() == device && site.kind() != Some(crate::ledger::Kind::Host)
        });
        let mut holders: Vec<_> = here.map(|(id, site)| (id, live(site).0, live(site).1)).collect();
        holders.retain(|&(_, bytes, _)| bytes > 0);
        holders.sort_unstable_by_key(|&(id, bytes, _)| (std::cmp::Reverse(bytes), id));
        holders.truncate(HOLDERS);
        holders
    }
}
