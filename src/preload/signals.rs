//! The job's signals are the job's: threads and files of ours must neither take nor cause one.

/// All signals, for a helper thread; or one.
#[derive(Clone, Copy)]
pub(super) enum Block {
    /// A thread that is started meanwhile inherits the mask.
    All,
    /// What a write beyond `ulimit -f` would kill the job with; with the signal blocked it is an error like others.
    FileSize,
}

/// Runs `call` with signals of this thread blocked. A SIGXFSZ that it caused is taken back.
pub(super) fn blocked<T>(which: Block, call: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero sets are valid to be filled.
    let (mut block, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid for the calls.
    unsafe {
        match which {
            Block::All => libc::sigfillset(&mut block),
            Block::FileSize => {
                libc::sigemptyset(&mut block);
                libc::sigaddset(&mut block, libc::SIGXFSZ)
            }
        };
        libc::pthread_sigmask(libc::SIG_BLOCK, &block, &mut before);
    }
    let result = call();
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets were filled above; nobody asks what was taken.
    unsafe {
        if matches!(which, Block::FileSize) && libc::sigismember(&before, libc::SIGXFSZ) == 0 {
            libc::sigtimedwait(&block, std::ptr::null_mut(), &at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
    result
}
