//! The contexts of the process, each with its pool.
//!
//! A driver gives a context's handle again after a reset, so a handle alone names nothing: a context is known by its handle and
//! the id that the driver gives each one for the life of the process.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard};

use super::clock::Every;
use super::driver::{ContextDriver, current_context};
use super::dump;
use super::process::{Process, lock};
use crate::cuda::table::{self, Function};
use crate::cuda::{ContextHandle, real};
use crate::ledger::{EventKind, Happening, Kind};
use crate::pool::{Config, Pool};

/// A context and its pool.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) handle: ContextHandle,
    /// `cuCtxGetId`; a number of our own on drivers before 12.0.
    id: u64,
    pub(super) device: u32,
    is_primary: bool,
    /// Place in the list.
    pub(super) index: u64,
    alive: AtomicBool,
    pub(super) pool: Pool<ContextDriver>,
    /// Held by whoever works on the context from outside of a call of the program, and by whoever ends it.
    pub(super) maintenance: Mutex<()>,
    /// When a synchronising call last looked for idle memory.
    pub(super) looked: Every,
}

/// Contexts that a process may have in its life; further ones are not pooled.
const MOST: usize = 1024;

/// All contexts, the dead ones too: a block names its context by place. Read without a lock.
#[derive(Debug)]
pub(super) struct Contexts {
    list: [AtomicPtr<Context>; MOST],
    count: AtomicUsize,
    /// Held while one is made, and while a capture begins.
    making: Mutex<()>,
    /// Contexts whose memory peers may reach.
    reachable: Mutex<Vec<ContextHandle>>,
    /// Goes up whenever a context may have died.
    epoch: AtomicU64,
}

impl Default for Contexts {
    fn default() -> Self {
        Contexts {
            list: [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST],
            count: AtomicUsize::new(0),
            making: Mutex::new(()),
            reachable: Mutex::default(),
            epoch: AtomicU64::new(0),
        }
    }
}

thread_local! {
    /// Epoch, handle and context that this thread last asked for.
    static LAST: Cell<(u64, ContextHandle, Option<&'static Context>)> = const { Cell::new((0, 0, None)) };
}

impl Contexts {
    /// A context by its place.
    pub(super) fn at(&self, index: u64) -> Option<&'static Context> {
        let slot = self.list.get(usize::try_from(index).ok()?)?;
        // SAFETY: the pointer is null or came from `Box::leak` in `find_or_make`.
        unsafe { slot.load(Acquire).as_ref() }
    }

    fn living(&self) -> impl Iterator<Item = &'static Context> + '_ {
        let count = self.count.load(Acquire) as u64;
        (0..count).filter_map(|index| self.at(index)).filter(|context| context.is_alive())
    }

    /// Every living context.
    pub(super) fn all_living(&self) -> Vec<&'static Context> {
        self.living().collect()
    }

    /// Does something for every living context.
    pub(super) fn each_living(&self, act: impl FnMut(&'static Context)) {
        self.living().for_each(act);
    }

    /// Keeps new contexts from being made.
    pub(super) fn stop_making(&self) -> MutexGuard<'_, ()> {
        lock(&self.making)
    }
}

impl Context {
    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Acquire)
    }
}

impl Process {
    /// The context that is current in this thread; none without one.
    pub(super) fn context(&'static self) -> Option<&'static Context> {
        let handle = current_context()?;
        let epoch = self.contexts.epoch.load(Acquire) + 1;
        if let (last_epoch, last_handle, Some(context)) = LAST.get()
            && (last_epoch, last_handle) == (epoch, handle)
        {
            return Some(context);
        }
        let context = self.find_or_make(handle)?;
        LAST.set((epoch, handle, Some(context)));
        Some(context)
    }

    fn find_or_make(&'static self, handle: ContextHandle) -> Option<&'static Context> {
        let id = id_of(handle);
        let is_it = |c: &&Context| c.handle == handle && id.is_none_or(|id| c.id == id);
        if let Some(found) = self.contexts.living().find(is_it) {
            return Some(found);
        }
        // The handle was given again: whoever had it before is gone.
        let stale = self.contexts.living().filter(|context| context.handle == handle);
        stale.for_each(|context| self.context_died(context));
        let _making = self.contexts.stop_making();
        if let Some(found) = self.contexts.living().find(is_it) {
            return Some(found);
        }
        let index = self.contexts.count.load(Relaxed);
        let slot = self.contexts.list.get(index)?;
        let context = self.make_context(handle, id, index as u64)?;
        slot.store(std::ptr::from_ref(context).cast_mut(), Release);
        self.contexts.count.store(index + 1, Release);
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
        let context: &'static Context = Box::leak(Box::new(Context {
            handle,
            id: id.unwrap_or(index),
            device,
            is_primary: is_primary(handle, device),
            index,
            alive: AtomicBool::new(true),
            pool: Pool::new(
                ContextDriver::new(handle, device),
                self.pool_config(device),
                &self.books.device(device).pool,
            ),
            maintenance: Mutex::new(()),
            looked: Every::new(),
        }));
        (0..self.captures.count()).for_each(|_| context.pool.capture(true));
        if lock(&self.contexts.reachable).contains(&handle) {
            context.pool.stop_recycling();
        }
        tracing::info!(device, handle, "context seen");
        Some(context)
    }

    /// Fills in the book of a device when its first context is seen.
    fn first_sight(&self, device: u32) {
        let book = self.books.device(device);
        if book.used.swap(1, Relaxed) == 1 {
            return;
        }
        dump::name_device(self, device);
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are valid for the write, and a context is current.
        if unsafe { real::cuMemGetInfo_v2(&mut free, &mut total) }.is_ok() {
            book.total_bytes.store(total as u64, Relaxed);
            book.context_bytes.store((total - free) as u64, Relaxed);
            self.take_sample(device, free as u64, total as u64);
        }
        let fraction = self.settings.per_process_memory_fraction;
        let share = fraction.map(|fraction| (total as f64 * fraction) as u64);
        let limit = [self.settings.limit, share].into_iter().flatten().min();
        self.budget(device).set_limit(limit);
        book.pool.limit_bytes.store(limit.unwrap_or(0), Relaxed);
    }

    fn pool_config(&self, device: u32) -> Config {
        let total = self.books.device(device).total_bytes.load(Relaxed);
        let most = self.budget(device).limit().unwrap_or(u64::MAX).min(total);
        let threshold = self.settings.garbage_collection_threshold;
        Config {
            max_split_size: self.settings.max_split_size,
            max_non_split_rounding: self.settings.max_non_split_rounding,
            collect_above: threshold.map(|share| (most as f64 * share) as u64),
            slabs: self.settings.slabs && !self.opened.ipc_seen(),
            free_barrier: self.settings.free_barrier,
        }
    }

    /// Living contexts that a condition names.
    pub(super) fn living_contexts(
        &self,
        condition: impl Fn(&Context) -> bool,
    ) -> Vec<&'static Context> {
        self.contexts.living().filter(|context| condition(context)).collect()
    }

    /// Other contexts may reach memory of this one, which may not have been seen yet.
    pub(super) fn peers_may_reach(&self, handle: ContextHandle) {
        self.events.note("peer_access", || {
            "a context's memory was opened to a peer: freed blocks of it go straight back to the driver".to_owned()
        });
        lock(&self.contexts.reachable).push(handle);
    }

    /// Buries those contexts that a reset or a release of the device's primary context ended.
    pub(super) fn check_contexts(&'static self, contexts: &[&'static Context], was_reset: bool) {
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
    pub(super) fn context_died(&self, context: &'static Context) {
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
        for (_, block) in &lost {
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
    }
}

fn id_of(context: ContextHandle) -> Option<u64> {
    let mut id = 0;
    // SAFETY: `id` is valid for the write. The driver keeps primary contexts' handles valid; others are asked only while
    // current.
    unsafe { real::cuCtxGetId(context, &mut id) }.is_ok().then_some(id)
}

fn primary_is_active(device: u32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: both are valid for the write.
    let code = unsafe { real::cuDevicePrimaryCtxGetState(device as i32, &mut flags, &mut active) };
    code.is_ok() && active != 0
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
