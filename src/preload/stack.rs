//! The call stack of a hooked call, as return addresses, innermost first.
//!
//! Walking a stack costs microseconds; a loop that allocates has the same stack each time. So each thread remembers its last
//! stacks together with *where* each return address lay. When the walk would begin at the same place and every one of those
//! words still holds the same return address, the walk would find the same frames: comparing two dozen words takes its place.
//!
//! # Invariants
//! 1. A remembered stack is believed only if every word of it is read again and equal. Words are read from the lowest address
//!    up, and the first difference ends it: so nothing is read beyond a frame that is not there.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::process::Process;
use crate::cuda::loader;
use crate::ledger::{Books, SITE_DEPTH};

/// Stacks that a thread remembers.
const MEMOS: usize = 24;
/// Our own frames at the inner end, which are walked and not kept.
const OWN: usize = 12;

/// What stands for a stack: a site for an allocation, a tag for a free.
pub(super) type Token = u64;

#[derive(Clone, Copy)]
struct Memo {
    /// Where the walk began: address of a local of `Walk::here`.
    anchor: usize,
    /// What the token is about; a stack has another site for each kind of call and device.
    subject: u64,
    token: Token,
    depth: usize,
    /// Where each return address lies, and what it is.
    words: [(usize, usize); SITE_DEPTH],
}

const NONE: Memo = Memo { anchor: 0, subject: 0, token: 0, depth: 0, words: [(0, 0); SITE_DEPTH] };

thread_local! {
    // No destructor: registering one could allocate.
    static MEMORY: RefCell<[Memo; MEMOS]> = const { RefCell::new([NONE; MEMOS]) };
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

/// The token of the current stack: remembered, or made by `make` from a fresh walk.
#[inline(never)]
pub(super) fn token(process: &Process, subject: u64, make: impl FnOnce(&[u64]) -> Token) -> Token {
    let here = 0u8;
    let anchor = &raw const here as usize;
    MEMORY.with(|memory| {
        let Ok(mut memos) = memory.try_borrow_mut() else { return make(&[]) };
        let known = |memo: &&Memo| memo.anchor == anchor && memo.subject == subject && memo.holds();
        if let Some(memo) = memos.iter().find(known) {
            return memo.token;
        }
        let (walk, complete) = Walk::here();
        let words = walk.words.get(..walk.depth).unwrap_or_default();
        let frames: Vec<u64> = words.iter().map(|&(_, frame)| frame as u64).collect();
        remember_modules(process.books, &frames);
        let token = make(&frames);
        if complete {
            let next = NEXT.get();
            NEXT.set((next + 1) % MEMOS);
            if let Some(memo) = memos.get_mut(next) {
                *memo = Memo { anchor, subject, token, depth: walk.depth, words: walk.words };
            }
        }
        token
    })
}

/// The current stack.
#[inline(never)]
pub(super) fn walk(process: &Process) -> Vec<u64> {
    let (walk, _) = Walk::here();
    let words = walk.words.get(..walk.depth).unwrap_or_default();
    let frames: Vec<u64> = words.iter().map(|&(_, frame)| frame as u64).collect();
    remember_modules(process.books, &frames);
    frames
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
        let regular = walk.regular && walk.depth > 0;
        (walk, regular)
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

/// Writes the modules of new frames into the books, so that the stack can be named after the process is gone.
fn remember_modules(books: &Books, frames: &[u64]) {
    use std::os::unix::ffi::OsStrExt;
    for &frame in frames {
        if books.knows_address(frame) {
            continue;
        }
        let Some((base, mut path)) = loader::module_at(frame as usize) else { continue };
        let Some((_, length)) = loader::extent(frame as usize) else { continue };
        if let Ok(executable) = std::fs::read_link("/proc/self/exe")
            && loader::is_main_program(base)
        {
            path = executable;
        }
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        books.add_module(base as u64, (base + length) as u64, path.as_os_str().as_bytes());
    }
}
