//! The helper thread that collects what the threads have written down, and writes the file.

use std::io::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use super::super::{clock, keeper, signals};
use super::format::{Encoder, Event};
use super::{RECORDER, Recorder, file};

/// How often the helper collects.
const TICK_NS: libc::c_long = 100_000_000;
/// How long a process that ends waits for its trace.
const PATIENCE_MS: u32 = 2000;

/// What may be asked of the helper.
const COLLECT: u32 = 1;
const FINISH: u32 = 2;

/// The helper, as others see it.
#[derive(Debug, Default)]
pub(super) struct Helper {
    /// What is asked. A futex.
    asked: AtomicU32,
    is_done: AtomicBool,
}

impl Helper {
    /// Asks it to collect now.
    pub(super) fn wake(&self) {
        if self.asked.compare_exchange(0, COLLECT, Release, Relaxed).is_ok() {
            self.call();
        }
    }

    /// Asks it to write what there is and to end, and waits until it has, for a bounded time.
    pub(super) fn finish(&self) {
        self.asked.store(FINISH, Release);
        self.call();
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..PATIENCE_MS {
            if self.is_done.load(Acquire) {
                break;
            }
            // SAFETY: `pause` is valid, and nobody asks for the rest.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        }
    }

    fn call(&self) {
        // SAFETY: wakes whoever waits on the word, which lives as long as the process.
        unsafe { libc::syscall(libc::SYS_futex, self.asked.as_ptr(), libc::FUTEX_WAKE, 1) };
    }

    /// Sleeps until something is asked, or a tick is over. Whether it is time to end.
    fn sleep(&self) -> bool {
        let time = libc::timespec { tv_sec: 0, tv_nsec: TICK_NS };
        // SAFETY: waits on a word that lives as long as the process, while it is 0, for the given time.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.asked.as_ptr(),
                libc::FUTEX_WAIT,
                0,
                &raw const time,
            );
        }
        let _ = self.asked.compare_exchange(COLLECT, 0, Acquire, Relaxed);
        self.asked.load(Acquire) == FINISH
    }
}

/// The file, and what is to be written to it.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    encoder: Encoder,
    written: u64,
    /// Events that are not written yet.
    events: Vec<Event>,
    /// What the system said when something could not be written: nothing more is.
    problem: Option<Error>,
}

impl Writer {
    /// A trace without events.
    ///
    /// # Errors
    /// If the file can't be made.
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        let (encoder, begin) = Encoder::new();
        let path = file::create(&path, &begin)?;
        let written = begin.len() as u64;
        Ok(Writer { path, encoder, written, events: Vec::new(), problem: None })
    }

    /// Writes the events so far.
    fn flush(&mut self, recorder: &Recorder) {
        // What was written down before this moment is in the buffers; what comes later may be there in part.
        let now = clock::monotonic_ns();
        recorder.buffers.collect(&mut self.events);
        self.encoder.names.extend(recorder.buffers.names_from(self.encoder.names.len()));
        self.events.sort_by_key(|event| event.time_ns);
        let due = self.events.partition_point(|event| event.time_ns <= now);
        if due == 0 {
            return;
        }
        let chunk = self.encoder.chunk(self.events.get(..due).unwrap_or_default());
        self.events.drain(..due);
        let at = self.written;
        self.written += chunk.len() as u64;
        self.write(&chunk, at);
    }

    fn write(&mut self, content: &[u8], at: u64) {
        if self.problem.is_none() {
            self.problem = file::write(&self.path, content, at).err();
        }
    }

    /// Writes the rest, and closes the trace.
    fn finish(mut self, recorder: &Recorder) {
        self.flush(recorder);
        let at = self.written;
        let (end, begin) = std::mem::replace(&mut self.encoder, Encoder::new().0).end();
        self.write(&end, at);
        self.write(&begin, 0);
        let lost = recorder.lost.load(Relaxed);
        if lost > 0 || self.problem.is_some() {
            tracing::error!(lost, problem = ?self.problem, "the trace is not complete");
        }
    }
}

/// Starts the helper.
///
/// # Errors
/// What the system says.
pub(super) fn start(writer: Writer) -> Result<(), Error> {
    let builder = std::thread::Builder::new().name("cenote-trace".to_owned()).stack_size(512 << 10);
    keeper::helpers(1);
    let started = signals::blocked(signals::Block::All, || builder.spawn(move || run(writer)));
    started.map(drop).inspect_err(|_| keeper::helpers(-1))
}

fn run(mut writer: Writer) {
    let recorder = loop {
        match RECORDER.get() {
            Some(recorder) => break recorder,
            None => std::thread::yield_now(),
        }
    };
    // A fault here must not end the job.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        while !(recorder.helper.sleep() || keeper::is_last_thread()) {
            writer.flush(recorder);
        }
        writer.finish(recorder);
    }));
    recorder.helper.is_done.store(true, Release);
    keeper::helpers(-1);
}
