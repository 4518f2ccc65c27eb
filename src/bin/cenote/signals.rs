//! Waiting for the job while its signals pass through.
//!
//! The job shares our process group, so what the terminal sends reaches it by itself: we only have to survive it. What a
//! batch system sends to us alone has to be handed on.

use std::fs::File;
use std::io;
use std::process::{Child, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Signals that are caught from now on. Make one before the job starts: the handlers do not pass on to it, and no signal
/// falls between.
#[derive(Debug)]
pub(crate) struct Relay {
    signals: Signals,
}

impl Relay {
    pub(crate) fn new() -> io::Result<Self> {
        let signals = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
        Ok(Relay { signals: Signals::new(signals)? })
    }

    /// Waits for the end of the job.
    pub(crate) fn wait(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            for signal in self.signals.wait() {
                // Not reaped yet, so the id is still the job's.
                if let Some(signal) = to_hand_on(signal) {
                    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                    let _ = pid.map(|pid| kill_process(pid, signal));
                }
            }
        }
    }
}

fn to_hand_on(signal: i32) -> Option<Signal> {
    match signal {
        SIGHUP => Some(Signal::HUP),
        SIGTERM => Some(Signal::TERM),
        SIGUSR1 => Some(Signal::USR1),
        SIGUSR2 => Some(Signal::USR2),
        // From a keyboard the job has it already, and a second one would break its clean-up. Without a terminal there
        // is no keyboard.
        SIGINT if !has_terminal() => Some(Signal::INT),
        SIGQUIT if !has_terminal() => Some(Signal::QUIT),
        _ => None,
    }
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
