//! `trace:FILE`: every allocation and free of the process, for `cenote replay`.
//!
//! A thread writes what it does into a buffer of its own, with the time; a helper thread collects the buffers every 100 ms, puts
//! the events into their order and appends them to the file. So the job pays for a clock, a lock that nobody else wants and a
//! few stores. If a buffer is full, since the helper can't keep up, events are lost, and counted: nobody waits.
//!
//! # Invariants
//! 1. Without the key an event costs one load.
//! 2. An allocation is written down after it was made, a free before it is: so for one address times are in the order of events,
//!    whichever threads they are from.
//! 3. After exit has begun, and in a forked child, nothing is written down.
//! 4. The file is a trace at any time, up to the last whole chunk: see [`format`].
//!
//! # Locks
//! A buffer's, for one event or one exchange; the list of buffers, for a thread's first event and for the helper. None is taken with
//! the other held by the same thread but by the helper: the list, then one buffer at a time.

mod buffers;
mod file;
mod format;
mod writer;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use once_cell::sync::OnceCell;

use super::{clock, log, shared};
use crate::cuda::{DevicePtr, StreamHandle};
use buffers::Buffers;
use format::{Event, Op};
use writer::Writer;

const UNASKED: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether events are written down.
static STATE: AtomicU8 = AtomicU8::new(UNASKED);
static RECORDER: OnceCell<Recorder> = OnceCell::new();

/// A block of which nobody says which stream uses it.
pub(crate) const NO_STREAM: StreamHandle = StreamHandle::MAX;

/// What the threads and the helper share.
#[derive(Debug)]
struct Recorder {
    pid: u32,
    buffers: Buffers,
    /// Events that found no room.
    lost: AtomicU64,
    helper: writer::Helper,
}

/// A block is in the program's hands.
#[inline]
pub(crate) fn allocated(device: u32, address: DevicePtr, bytes: u64, stream: StreamHandle) {
    if is_on() {
        record(Op::Allocate, address, bytes, stream as u64, device);
    }
}

/// A block is about to leave them.
#[inline]
pub(crate) fn freed(address: DevicePtr) {
    if is_on() {
        record(Op::Free, address, 0, 0, 0);
    }
}

/// Another stream than its own uses a block.
pub(crate) fn used(address: DevicePtr) {
    if is_on() {
        record(Op::Use, address, 0, 0, 0);
    }
}

/// A step of the program begins.
pub(crate) fn mark(name: &str) {
    if is_on()
        && let Some(recorder) = RECORDER.get()
    {
        let number = recorder.buffers.name(name);
        record(Op::Mark, number, 0, 0, 0);
    }
}

/// The process ends: what was written down goes to the file, and the file is closed. Waits for that for a bounded time. For callers
/// that may be in a signal handler: nothing here allocates or locks.
pub(crate) fn finish() {
    if STATE.swap(OFF, Relaxed) == ON
        && let Some(recorder) = RECORDER.get()
        && recorder.pid == std::process::id()
    {
        recorder.helper.finish();
    }
}

/// This is the child of a fork: it has no helper, and any lock may be held. Where nothing was written down it may begin anew.
pub(crate) fn forked() {
    let _ = STATE.compare_exchange(ON, OFF, Relaxed, Relaxed);
}

#[inline]
fn is_on() -> bool {
    match STATE.load(Relaxed) {
        ON => true,
        UNASKED => begin(),
        _ => false,
    }
}

/// The first event of the process: begins, if so configured.
#[cold]
fn begin() -> bool {
    let wanted = || !shared::driver_is_gone() && shared::settings().trace.is_some();
    let begun = wanted() && RECORDER.get_or_try_init(start).is_ok();
    let state = if begun { ON } else { OFF };
    // A process that has begun to end meanwhile stays off.
    let _ = STATE.compare_exchange(UNASKED, state, Relaxed, Relaxed);
    STATE.load(Relaxed) == ON
}

fn start() -> Result<Recorder, ()> {
    let template = shared::settings().trace.ok_or(())?;
    let say = |problem: std::io::Error, path: &std::path::Path| {
        log::warn_once(&format!("no trace is written to {}: {problem}", path.display()), false);
    };
    let path = file::place(&template);
    let writer = Writer::create(path.clone()).map_err(|problem| say(problem, &path))?;
    writer::start(writer).map_err(|problem| say(problem, &path))?;
    Ok(Recorder {
        pid: std::process::id(),
        buffers: Buffers::default(),
        lost: AtomicU64::new(0),
        helper: writer::Helper::default(),
    })
}

fn record(op: Op, address: u64, bytes: u64, stream: u64, device: u32) {
    let Some(recorder) = RECORDER.get() else { return };
    let mut event = Event::new(op, address, bytes, stream, device);
    let now = || {
        event.time_ns = clock::monotonic_ns();
        event
    };
    match recorder.buffers.push(now) {
        buffers::Room::Much => {}
        buffers::Room::Little => recorder.helper.wake(),
        buffers::Room::None => _ = recorder.lost.fetch_add(1, Relaxed),
    }
}
