//! The contexts of the process, each with its pool.
//!
//! A driver gives a context's handle again after a reset, so a handle alone names nothing: a context is known by its handle and
//! the id that the driver gives each one for the life of the process.

mod ending;
mod making;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Acquire};
use std::sync::{Mutex, MutexGuard};

use super::clock::Every;
use super::driver::{ContextDriver, current_context};
use super::process::{Process, lock};
use crate::cuda::{ContextHandle, real};
use crate::pool::Pool;

/// A context and its pool.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) handle: ContextHandle,
    /// `cuCtxGetId`; on drivers before 12.0 its place, which says nothing: there the handle alone counts.
    id: u64,
    pub(super) device: u32,
    is_primary: bool,
    /// Place in the list.
    pub(super) index: u64,
    alive: AtomicBool,
    /// Nothing names it any more: its place is free.
    is_buried: AtomicBool,
    pub(super) pool: Pool<ContextDriver>,
    /// Held by whoever works on the context from outside of a call of the program, and by whoever ends it.
    pub(super) maintenance: Mutex<()>,
    /// Threads that measure what a call takes from the device: nothing is given back for being idle meanwhile.
    pub(super) measured_by: AtomicUsize,
    /// When a synchronising call last looked for idle memory.
    pub(super) looked: Every,
}

/// Contexts that a process may have at once; further ones are not pooled.
const MOST: usize = 1024;

/// All contexts; a block names its context by place. Read without a lock.
#[derive(Debug)]
pub(super) struct Contexts {
    list: [AtomicPtr<Context>; MOST],
    count: AtomicUsize,
    /// Held while one is made, and while a capture begins.
    making: Mutex<()>,
    /// Contexts whose memory peers may reach.
    reachable: Mutex<Vec<ContextHandle>>,
    /// Green contexts, and the contexts made from them.
    pub(super) greens: Mutex<Vec<(usize, ContextHandle)>>,
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
            greens: Mutex::default(),
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

    /// Living contexts that a condition names.
    pub(super) fn living_contexts(
        &self,
        condition: impl Fn(&Context) -> bool,
    ) -> Vec<&'static Context> {
        self.contexts.living().filter(|context| condition(context)).collect()
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
