//! A context that is seen for the first time: its pool, and what is noted about its device.

use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use super::super::clock::Every;
use super::super::device;
use super::super::driver::ContextDriver;
use super::super::process::{Process, lock};
use super::{Context, id_of, primary_is_active};
use crate::cuda::table::{self, Function};
use crate::cuda::{ContextHandle, real};
use crate::pool::{Config, Pool};

impl Process {
    pub(super) fn find_or_make(&'static self, handle: ContextHandle) -> Option<&'static Context> {
        let id = id_of(handle);
        let is_it = |c: &&Context| c.handle == handle && id.is_none_or(|id| c.id == id);
        if let Some(found) = self.contexts.living().find(is_it) {
            return Some(found);
        }
        // The handle was given again: whoever had it before is gone.
        let stale = self.contexts.living().filter(|context| context.handle == handle);
        stale.for_each(|context| {
            let _maintenance = lock(&context.maintenance);
            self.context_died(context);
        });
        let _making = self.contexts.stop_making();
        if let Some(found) = self.contexts.living().find(is_it) {
            return Some(found);
        }
        let count = self.contexts.count.load(Relaxed);
        let is_free = |&index: &usize| {
            self.contexts.at(index as u64).is_none_or(|context| context.is_buried.load(Acquire))
        };
        let index = (0..count).find(is_free).unwrap_or(count);
        let slot = self.contexts.list.get(index)?;
        let context = self.make_context(handle, id, index as u64)?;
        slot.store(std::ptr::from_ref(context).cast_mut(), Release);
        self.contexts.count.store(count.max(index + 1), Release);
        // Asked when it can be found: whoever says so later finds it.
        if lock(&self.contexts.reachable).contains(&handle) {
            context.pool.stop_recycling();
        }
        Some(context)
    }

    fn make_context(
        &'static self,
        handle: ContextHandle,
        id: Option<u64>,
        index: u64,
    ) -> Option<&'static Context> {
        let mut device = 0;
        // SAFETY: `device` is valid for the write, and a context is current.
        unsafe { real::cuCtxGetDevice(&mut device) }.ok().ok()?;
        let device = u32::try_from(device).ok()?;
        self.first_sight(device);
        self.first_sample(device);
        let context: &'static Context = Box::leak(Box::new(Context {
            handle,
            id: id.unwrap_or(index),
            device,
            is_primary: is_primary(handle, device),
            index,
            alive: AtomicBool::new(true),
            is_buried: AtomicBool::new(false),
            pool: Pool::new(
                ContextDriver::new(handle, device),
                self.pool_config(device),
                &self.books.device(device).pool,
            ),
            maintenance: Mutex::new(()),
            measured_by: AtomicUsize::new(0),
            looked: Every::new(),
        }));
        (0..self.captures.count()).for_each(|_| context.pool.capture(true));
        // A copy between devices runs on a stream of either one.
        let others = self.contexts.living().filter(|other| other.device != device);
        let others: Vec<ContextHandle> = others.map(|other| other.handle).collect();
        if !others.is_empty() {
            context.pool.stop_recycling();
            others.into_iter().for_each(|other| self.others_may_reach(other));
        }
        tracing::info!(device, handle, "context seen");
        Some(context)
    }

    /// Fills in the book of a device when something of it is seen for the first time; a context need not be current.
    pub(in super::super) fn first_sight(&self, device: u32) {
        let book = self.books.device(device);
        if book.used.load(Acquire) == 1 {
            return;
        }
        let mut total = 0;
        // SAFETY: `total` is valid for the write.
        unsafe { real::cuDeviceTotalMem_v2(&mut total, device as i32) };
        book.total_bytes.store(total as u64, Relaxed);
        let fraction = self.settings.per_process_memory_fraction;
        let share = fraction.map(|fraction| (total as f64 * fraction) as u64);
        let limit = [self.settings.limit, share].into_iter().flatten().min();
        self.budget(device).set_limit(limit);
        book.pool.limit_bytes.store(limit.unwrap_or(0), Relaxed);
        if book.used.swap(1, Release) == 0 {
            device::note(self, device);
        }
    }

    /// What is used on the device of the current context, before this process allocates in it.
    fn first_sample(&self, device: u32) {
        let book = self.books.device(device);
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the write, and a context is current.
        let mut ask = || unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) };
        if book.sampled_unix_ns.load(Relaxed) == 0 && ask().is_ok() {
            let used = (total - free) as u64;
            book.total_bytes.store(total as u64, Relaxed);
            book.context_bytes.store(used.saturating_sub(book.tracked_bytes()), Relaxed);
            self.take_sample(device, free as u64, total as u64);
        }
    }

    fn pool_config(&self, device: u32) -> Config {
        let total = self.books.device(device).total_bytes.load(Relaxed);
        let most = self.budget(device).limit().unwrap_or(u64::MAX).min(total);
        let threshold = self.settings.garbage_collection_threshold;
        Config {
            max_split_size: self.settings.max_split_size,
            max_non_split_rounding: self.settings.max_non_split_rounding,
            collect_above: threshold.map(|share| (most as f64 * share) as u64),
            slabs: self.settings.slabs && !self.opened.has_exported(),
            free_barrier: self.settings.free_barrier,
        }
    }
}

/// Whether the handle is the device's primary context. Retains it to learn its handle: only while it is active, so that none
/// is made by asking.
fn is_primary(handle: ContextHandle, device: u32) -> bool {
    if !primary_is_active(device) {
        return false;
    }
    let mut primary = 0;
    // SAFETY: `primary` is valid for the write.
    if !unsafe { real::cuDevicePrimaryCtxRetain(&mut primary, device as i32) }.is_ok() {
        return false;
    }
    // SAFETY: undoes the retain; the context stays, since somebody else holds it.
    unsafe {
        match table::has(Function::cuDevicePrimaryCtxRelease_v2) {
            true => real::cuDevicePrimaryCtxRelease_v2(device as i32),
            false => real::cuDevicePrimaryCtxRelease(device as i32),
        }
    };
    primary == handle
}
