//! What each thread has written down and the helper has not collected.
//!
//! Buffers are never given back: a thread that ends leaves its buffer to the next. Thread-local memory holds one pointer and has no
//! destructor, since registering one could allocate; a key of the C library tells when the thread ends.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed, Release},
};

use once_cell::sync::OnceCell;

use super::super::process::lock;
use super::format::Event;

/// Events of a buffer at which the helper is woken.
const MANY: usize = 16 << 10;
/// Most events of a buffer: 32 MiB.
const MOST: usize = 1 << 20;

/// How a buffer stands after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Much,
    /// The helper should come soon.
    Little,
    /// The event is lost.
    None,
}

#[derive(Debug, Default)]
struct Buffer {
    events: Mutex<Vec<Event>>,
    /// What the helper left there, to be filled next.
    emptied: Mutex<Vec<Event>>,
    /// Whether some thread has it.
    is_taken: AtomicBool,
}

/// All buffers of the process.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    all: Mutex<Vec<&'static Buffer>>,
    /// Names of marks.
    names: Mutex<Vec<String>>,
}

thread_local! {
    static MINE: Cell<*const Buffer> = const { Cell::new(null()) };
}

impl Buffers {
    /// Adds an event to this thread's buffer. Its time is taken with the buffer locked: the helper counts on it.
    pub(super) fn push(&self, event: impl FnOnce() -> Event) -> Room {
        let Some(mine) = self.mine() else { return Room::None };
        let mut events = lock(&mine.events);
        if events.len() >= MOST {
            return Room::None;
        }
        events.push(event());
        if events.len() == MANY { Room::Little } else { Room::Much }
    }

    fn mine(&self) -> Option<&'static Buffer> {
        // SAFETY: null, or a buffer of this process, and none is ever dropped.
        match unsafe { MINE.get().as_ref() } {
            Some(mine) => Some(mine),
            None => self.take(),
        }
    }

    #[cold]
    fn take(&self) -> Option<&'static Buffer> {
        let key = key()?;
        let mut all = lock(&self.all);
        let is_left = |buffer: &&&'static Buffer| {
            buffer.is_taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok()
        };
        let left = all.iter().find(is_left).copied();
        let mine = left.unwrap_or_else(|| {
            let fresh: &'static Buffer = Box::leak(Box::default());
            fresh.is_taken.store(true, Relaxed);
            all.push(fresh);
            fresh
        });
        drop(all);
        MINE.set(mine);
        // SAFETY: the key is valid. Should the C library have no memory, the buffer stays with the thread that was.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(mine).cast()) };
        Some(mine)
    }

    /// Takes all events. Those that were written down before this was called are among them.
    pub(super) fn collect(&self, into: &mut Vec<Event>) {
        for buffer in lock(&self.all).iter() {
            let mut emptied = lock(&buffer.emptied);
            std::mem::swap(&mut *lock(&buffer.events), &mut *emptied);
            into.extend_from_slice(&emptied);
            emptied.clear();
        }
    }

    /// Writes a name down; returns its number.
    pub(super) fn name(&self, name: &str) -> u64 {
        let mut names = lock(&self.names);
        names.push(name.to_owned());
        names.len() as u64 - 1
    }

    /// Names from a number on.
    pub(super) fn names_from(&self, known: usize) -> Vec<String> {
        lock(&self.names).get(known..).map(<[String]>::to_vec).unwrap_or_default()
    }
}

/// The key whose destructor gives a thread's buffer to others; none where the process has used up its keys.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceCell<libc::pthread_key_t> = OnceCell::new();
    let make = || {
        let mut key = 0;
        // SAFETY: `key` is valid for the write; the destructor is a function of this library, which stays loaded.
        let code = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
        if code == 0 { Ok(key) } else { Err(()) }
    };
    KEY.get_or_try_init(make).ok().copied()
}

/// # Safety
/// Called by the C library with the pointer that `take` left, when the thread ends.
unsafe extern "C" fn end(buffer: *mut c_void) {
    MINE.set(null());
    // SAFETY: a buffer of this process, and none is ever dropped.
    if let Some(buffer) = unsafe { buffer.cast::<Buffer>().as_ref() } {
        buffer.is_taken.store(false, Release);
    }
}
