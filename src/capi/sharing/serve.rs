//! The thread that gives descriptors to those who have a ticket, and the question to it.
//!
//! A question is one message, a secret and numbers; the answer is a code of the driver, with a descriptor for each number. Who asks
//! says at once what it wants, or is not waited for.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicI32,
    Ordering::{AcqRel, Release},
};
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::ticket::{Exporter, word};
use super::{exports, socket};
use crate::capi::life;
use crate::cuda::CuResult;
use crate::preload::shared;

/// How long the exporter waits for a question, which comes with the connection.
const BRIEFLY: Duration = Duration::from_secs(1);
/// How long an exporter may need to answer, while the driver keeps it or it is not scheduled. One that has ended is not waited for.
const PATIENTLY: Duration = Duration::from_secs(120);

/// The socket that is listened to; -1 for none.
static LISTENER: AtomicI32 = AtomicI32::new(-1);
static EXPORTER: OnceCell<Option<Exporter>> = OnceCell::new();

/// This process, as others can ask it; the thread runs from the first call on. Nothing where none can be had.
pub(super) fn exporter() -> Option<Exporter> {
    *EXPORTER.get_or_init(begin)
}

fn begin() -> Option<Exporter> {
    let mut exporter = Exporter { secret: [0; 16], name: [0; 12] };
    let secret = exporter.secret.as_mut_ptr().cast();
    // SAFETY: the bytes are valid for the write.
    if unsafe { libc::getrandom(secret, exporter.secret.len(), 0) } != 16 {
        return None;
    }
    let (listener, name) = socket::listen().ok()?;
    let (length, rest) = exporter.name.split_first_mut()?;
    rest.get_mut(..name.len())?.copy_from_slice(&name);
    *length = name.len() as u8;
    LISTENER.store(listener.as_raw_fd(), Release);
    let secret = exporter.secret;
    shared::helper_thread("cenote-share", move || serve(listener, secret)).ok()?;
    Some(exporter)
}

fn serve(listener: OwnedFd, secret: [u8; 16]) {
    while !life::driver_is_gone() {
        // One who can't be served is told nothing, and knows.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let Ok(socket) = socket::accept(&listener, BRIEFLY) else {
                // Out of descriptors, for one: not again at once.
                return std::thread::sleep(Duration::from_millis(50));
            };
            let Ok((question, _)) = socket::receive(&socket) else { return };
            let Some(numbers) = question.strip_prefix(&secret) else { return };
            let numbers: Vec<u64> = numbers.chunks_exact(8).filter_map(word).collect();
            let answer = exports::descriptors(&numbers);
            let code = answer.as_ref().map_or_else(|code| code.0, |_| 0);
            let _ = socket::send(&socket, &code.to_le_bytes(), &answer.unwrap_or_default());
        }));
    }
    // Exit has begun. The number of the descriptor stays taken until the process is gone.
    let _ = listener.into_raw_fd();
}

/// In a forked child, which has no such thread: whoever asks must not wait for it.
pub(in crate::capi) fn forked() {
    let listener = LISTENER.swap(-1, AcqRel);
    if listener >= 0 {
        // SAFETY: the child's copy of a descriptor that only the thread uses, which is not there.
        unsafe { libc::close(listener) };
    }
}

/// Descriptors of an exporter's memory, in the order of the numbers: at most as many as one message has.
///
/// # Errors
/// If it can't be asked, or says that the memory is gone.
pub(super) fn ask(exporter: &Exporter, numbers: &[u64]) -> Result<Vec<OwnedFd>, CuResult> {
    let (length, rest) = exporter.name.split_first().ok_or(CuResult::INVALID_VALUE)?;
    let name = rest.get(..usize::from(*length)).ok_or(CuResult::INVALID_VALUE)?;
    let mut question = exporter.secret.to_vec();
    numbers.iter().for_each(|number| question.extend(number.to_le_bytes()));
    let talk = || {
        let socket = socket::connect(name, PATIENTLY)?;
        socket::send(&socket, &question, &[])?;
        socket::receive(&socket)
    };
    let (answer, files) = talk().map_err(|_| CuResult::OPERATING_SYSTEM)?;
    // An exporter with another secret says nothing: it has the name of one that ended.
    let code = answer.first_chunk().ok_or(CuResult::OPERATING_SYSTEM)?;
    CuResult(u32::from_le_bytes(*code)).ok()?;
    // Fewer arrive where this process may open no more.
    if files.len() == numbers.len() { Ok(files) } else { Err(CuResult::OPERATING_SYSTEM) }
}
