//! The call stack of a hooked call, as return addresses, innermost first.
//!
//! Walking a stack costs microseconds; a loop that allocates has the same stack each time. So the last stacks are
//! remembered together with *where* each return address lay. When the walk would begin at the same place and every one of those
//! words still holds the same return address, the walk would find the same frames: comparing two dozen words takes its place.
//!
//! # Invariants
//! 1. A remembered stack is believed only if every word of it is read again and equal. Words are read from the lowest address
//!    up, and the first difference ends it: so nothing is read beyond a frame that is not there.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::cuda::loader;
use crate::ledger::{Books, SITE_DEPTH, Sites};

/// Stacks that are remembered with the same place in a stack and the same subject, before one gives way.
const WAYS: usize = 8;
/// Sets of that many.
const SETS: usize = 256;
/// Our own frames at the inner end, which are walked and not kept.
const OWN: usize = 12;

/// What stands for a stack: a site for an allocation, a tag for a free.
pub(super) type Token = u64;

#[derive(Clone, Copy)]
struct Memo {
    /// Where the walk began: address of a local of `token`.
    anchor: usize,
    /// What the token is about; a stack has another site for each kind of call and device.
    subject: u64,
    token: Token,
    depth: usize,
    /// Where each return address lies, and what it is.
    words: [(usize, usize); SITE_DEPTH],
}

const NONE: Memo = Memo { anchor: 0, subject: 0, token: 0, depth: 0, words: [(0, 0); SITE_DEPTH] };

/// Memos of one set. The memory is the process', not the thread's: thread-local memory of a preloaded library comes out of every
/// thread's stack, in every program. Threads do not meet here, since no two have the same place in a stack.
struct Set {
    is_taken: AtomicBool,
    memos: UnsafeCell<([Memo; WAYS], usize)>,
}

// SAFETY: `memos` is touched only by whoever set `is_taken`.
unsafe impl Sync for Set {}

static MEMORY: [Set; SETS] =
    [const { Set { is_taken: AtomicBool::new(false), memos: UnsafeCell::new(([NONE; WAYS], 0)) } };
        SETS];

impl Set {
    /// Runs `call` on the memos; not at all if somebody else is at them, a signal handler's victim for one.
    fn with<T>(&self, call: impl FnOnce(&mut [Memo; WAYS], &mut usize) -> T) -> Option<T> {
        if self.is_taken.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the flag was clear and is set now, so nobody else is here until it is cleared below; `call` does not panic.
        let (memos, next) = unsafe { &mut *self.memos.get() };
        let result = call(memos, next);
        self.is_taken.store(false, Release);
        Some(result)
    }
}

/// The token of the current stack: remembered, or made by `make` from a fresh walk.
#[inline(never)]
pub(super) fn token(subject: u64, make: impl FnOnce(&[u64]) -> Token) -> Token {
    let here = 0u8;
    let anchor = &raw const here as usize;
    let spread = (anchor as u64 >> 4 ^ subject << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    let Some(set) = MEMORY.get(spread as usize % SETS) else { return make(&[]) };
    let known = |memo: &&Memo| memo.anchor == anchor && memo.subject == subject && memo.holds();
    if let Some(Some(token)) = set.with(|memos, _| memos.iter().find(known).map(|memo| memo.token))
    {
        return token;
    }
    let (walk, complete) = Walk::here();
    let token = make(&walk.frames());
    if complete {
        let memo = Memo { anchor, subject, token, depth: walk.depth, words: walk.words };
        set.with(|memos, next| {
            if let Some(place) = memos.get_mut(*next % WAYS) {
                *place = memo;
            }
            *next += 1;
        });
    }
    token
}

/// The current stack.
#[inline(never)]
pub(super) fn walk() -> Vec<u64> {
    Walk::here().0.frames()
}

impl Memo {
    fn holds(&self) -> bool {
        let words = self.words.get(..self.depth).unwrap_or_default();
        // SAFETY: the words lie above `anchor` in this thread's stack, in ascending order. Each was the return address of the
        // frame below it; while all lower ones are unchanged those frames are still there, and the frame that a return address
        // leads to exists, so the next word is mapped.
        words.iter().all(|&(at, frame)| unsafe { (at as *const usize).read_volatile() } == frame)
    }
}

struct Walk {
    words: [(usize, usize); SITE_DEPTH],
    depth: usize,
    own: usize,
    /// Every return address was found where the frame's layout says, at ascending addresses.
    regular: bool,
    limits: (usize, usize),
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

const GO_ON: c_int = 0;
const STOP: c_int = 5;

impl Walk {
    /// Walks the stack of this thread; true if it may be remembered.
    #[inline(never)]
    fn here() -> (Walk, bool) {
        let mut walk = Walk {
            words: [(0, 0); SITE_DEPTH],
            depth: 0,
            own: 0,
            regular: true,
            limits: own_limits(),
        };
        // SAFETY: `each` treats its second argument as the Walk that is passed here, which outlives the call.
        unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
        MODULES_DUE.store(true, Relaxed);
        let regular = walk.regular && walk.depth > 0;
        (walk, regular)
    }

    fn frames(&self) -> Vec<u64> {
        let words = self.words.get(..self.depth).unwrap_or_default();
        words.iter().map(|&(_, frame)| frame as u64).collect()
    }

    fn frame(&mut self, at: usize, frame: usize) -> bool {
        let (begin, end) = self.limits;
        if self.depth == 0 && (begin..end).contains(&frame) && self.own < OWN {
            self.own += 1;
            return true;
        }
        let below = self.depth.checked_sub(1).and_then(|last| self.words.get(last));
        // SAFETY: the unwinder read the return address of a frame of this stack from `at`, on the ABI's terms.
        let holds =
            at.is_multiple_of(8) && unsafe { (at as *const usize).read_volatile() } == frame;
        self.regular &= holds && below.is_none_or(|&(lower, _)| lower < at);
        let Some(word) = self.words.get_mut(self.depth) else { return false };
        *word = (at, frame);
        self.depth += 1;
        self.depth < SITE_DEPTH
    }
}

/// # Safety
/// Called by the unwinder with its context and the Walk of `here`.
unsafe extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `here` passed a Walk that nobody else refers to during the call.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: the context is the unwinder's own. On x86-64 the return address into a frame lies just below the frame's CFA as
    // the unwinder reports it here.
    let (frame, cfa) = unsafe { (_Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    if frame == 0 || cfa < 8 {
        return STOP;
    }
    if walk.frame(cfa - 8, frame) { GO_ON } else { STOP }
}

/// First address of this library, and the first after it.
fn own_limits() -> (usize, usize) {
    static LIMITS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    let [begin, end] = &LIMITS;
    if end.load(Relaxed) == 0 {
        let here = own_limits as *const () as usize;
        let (base, length) = loader::extent(here).unwrap_or((here, 1));
        begin.store(base, Relaxed);
        end.store(base + length, Relaxed);
    }
    (begin.load(Relaxed), end.load(Relaxed))
}

/// Set by every walk.
static MODULES_DUE: AtomicBool = AtomicBool::new(false);

/// If stacks were walked since the last time, as `remember_modules`.
pub(super) fn remember_modules_if_due(books: &Books) {
    if MODULES_DUE.swap(false, Relaxed) {
        remember_modules(books);
    }
}

/// Writes the modules of all sites' frames into the books, so that stacks can be named after the process is gone. Reads files, so
/// it is no work for a hook.
pub(super) fn remember_modules(books: &Books) {
    let unknown = |frame: &u64| !books.knows_address(*frame);
    let frames = Sites::of(books).iter().flat_map(|(_, site)| site.frames());
    let mut frames: Vec<u64> = frames.filter(unknown).collect();
    frames.sort_unstable();
    frames.dedup();
    frames.into_iter().for_each(|frame| remember_module(books, frame as usize));
}

/// Writes the module of one address into the books.
pub(super) fn remember_module(books: &Books, address: usize) {
    if books.knows_address(address as u64) || books.is_full_of_modules() {
        return;
    }
    let Some((base, mut path)) = loader::module_at(address) else { return };
    let Some((_, length)) = loader::extent(address) else { return };
    if let Ok(executable) = std::fs::read_link("/proc/self/exe")
        && loader::is_main_program(base)
    {
        path = executable;
    }
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    books.add_module(base as u64, (base + length) as u64, path.as_os_str().as_bytes());
}
