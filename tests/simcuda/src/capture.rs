//! Stream capture: recording operations into a graph, and what breaks a recording.
//!
//! The table is measured (`facts/h200.md`, "Stream capture"). A call that breaks captures returns
//! `STREAM_CAPTURE_UNSUPPORTED`, and ending such a capture returns `STREAM_CAPTURE_INVALIDATED`.
//! A broken capture is a violation as well: a library between program and driver must never
//! cause one.

use std::collections::BTreeMap;

use crate::code::{Code, Outcome};
use crate::operation::Operation;
use crate::state::Sim;
use crate::thread;
use crate::timeline::{CaptureMark, Role};
use crate::violation::violation;

/// `CUstreamCaptureMode`: of a capture, and of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_number(number: u32) -> Outcome<Mode> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

/// How a call gets on with captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hazard {
    /// `cuMemAlloc`, `cuMemFree`, `cuEventQuery`, `cuStreamQuery`: by modes and thread.
    Unsafe,
    /// `cuCtxRecordEvent`, `cuCtxSynchronize`: always, for captures in that context.
    ContextWide { context: u64 },
    /// Waiting for, or asking about, a stream that takes part in the capture.
    OnMember { capture: Option<u64> },
}

/// A running capture.
#[derive(Debug)]
pub(crate) struct Capture {
    mode: Mode,
    thread: i32,
    context: u64,
    origin: u64,
    valid: bool,
    nodes: Vec<Operation>,
    /// Number of nodes at each forked stream's last work that the origin has not waited for.
    unjoined: BTreeMap<u64, usize>,
    /// The graph to append to; `None` makes a new one.
    target: Option<u64>,
}

impl Capture {
    /// Whether a call made now by `caller`, whose thread is in mode `chosen`, breaks this capture.
    fn is_broken_by(&self, id: u64, hazard: Hazard, caller: i32, chosen: Mode) -> bool {
        match (hazard, self.mode, chosen) {
            (Hazard::ContextWide { context }, ..) => self.context == context,
            (Hazard::OnMember { capture }, ..) => capture == Some(id),
            (Hazard::Unsafe, Mode::Relaxed, _) | (Hazard::Unsafe, _, Mode::Relaxed) => false,
            (Hazard::Unsafe, Mode::Global, Mode::Global) => true,
            (Hazard::Unsafe, ..) => self.thread == caller,
        }
    }
}

/// The captures of the process.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    running: BTreeMap<u64, Capture>,
    begun: u64,
}

impl Sim {
    /// Breaks the captures that the call is not allowed beside; fails if there were any.
    pub(crate) fn respect_captures(&mut self, hazard: Hazard, call: &str) -> Outcome {
        let (caller, chosen) = (thread::id(), thread::capture_mode());
        self.break_captures(call, |id, capture| capture.is_broken_by(id, hazard, caller, chosen))
            .map_err(|()| Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    /// Work on a legacy stream may not meet a capture on a stream that takes turns with it.
    pub(crate) fn respect_implicit_order(&mut self, stream: u64, call: &str) -> Outcome {
        let Some(legacy) = self.timeline.stream(stream).filter(|s| s.role == Role::Legacy) else {
            return Ok(());
        };
        let context = legacy.context;
        let blocking: Vec<u64> = self
            .captures
            .running
            .values()
            .map(|capture| capture.origin)
            .filter(|origin| {
                self.timeline
                    .stream(*origin)
                    .is_some_and(|s| s.context == context && s.is_blocking())
            })
            .collect();
        self.break_captures(call, |_, capture| blocking.contains(&capture.origin))
            .map_err(|()| Code::STREAM_CAPTURE_IMPLICIT)
    }

    fn break_captures(
        &mut self,
        call: &str,
        breaks: impl Fn(u64, &Capture) -> bool,
    ) -> Result<(), ()> {
        let mut broken = false;
        for (id, capture) in
            self.captures.running.iter_mut().filter(|(id, capture)| breaks(**id, capture))
        {
            broken = true;
            if capture.valid {
                capture.valid = false;
                violation!(
                    "{call} broke capture {id} ({:?}) of thread {}",
                    capture.mode,
                    capture.thread
                );
            }
        }
        if broken { Err(()) } else { Ok(()) }
    }

    pub(crate) fn begin_capture(
        &mut self,
        stream: u64,
        mode: Mode,
        target: Option<u64>,
    ) -> Outcome {
        let found = self.timeline.stream(stream).ok_or(Code::INVALID_HANDLE)?;
        if found.role == Role::Legacy {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if found.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let context = found.context;
        self.captures.begun += 1;
        let id = self.captures.begun;
        let (nodes, unjoined) = Default::default();
        let thread = thread::id();
        let capture =
            Capture { mode, thread, context, origin: stream, valid: true, nodes, unjoined, target };
        self.captures.running.insert(id, capture);
        if let Some(found) = self.timeline.stream_mut(stream) {
            found.capture = Some(id);
        }
        Ok(())
    }

    /// Ends a capture; gives the graph's handle.
    pub(crate) fn end_capture(&mut self, stream: u64) -> Outcome<u64> {
        let id = self.capture_of(stream).ok_or(Code::ILLEGAL_STATE)?;
        let capture = self.captures.running.get(&id).ok_or(Code::ILLEGAL_STATE)?;
        if capture.origin != stream {
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != Mode::Relaxed && capture.thread != thread::id() {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let capture = self.forget_capture(id).ok_or(Code::ILLEGAL_STATE)?;
        if !capture.valid {
            return Err(Code::STREAM_CAPTURE_INVALIDATED);
        }
        if !capture.unjoined.is_empty() {
            return Err(Code::STREAM_CAPTURE_UNJOINED);
        }
        self.graphs.fill(capture.target, capture.nodes)
    }

    fn forget_capture(&mut self, id: u64) -> Option<Capture> {
        self.timeline.release_capture(id);
        self.captures.running.remove(&id)
    }

    /// Ends the captures of a context that dies.
    pub(crate) fn forget_captures_in(&mut self, context: u64) {
        self.captures.running.retain(|_, capture| capture.context != context);
    }

    /// The capture that a stream takes part in.
    pub(crate) fn capture_of(&self, stream: u64) -> Option<u64> {
        self.timeline.stream(stream).and_then(|stream| stream.capture)
    }

    /// `CUstreamCaptureStatus` of a stream, and the capture's id.
    pub(crate) fn capture_status(&self, stream: u64) -> (u32, u64) {
        match self.capture_of(stream).and_then(|id| Some((id, self.captures.running.get(&id)?))) {
            None => (0, 0),
            Some((id, capture)) => (if capture.valid { 1 } else { 2 }, id),
        }
    }

    /// Records an operation of a capturing stream.
    pub(crate) fn record_node(&mut self, id: u64, stream: u64, operation: Operation) -> Outcome {
        let capture = self.valid_capture(id)?;
        capture.nodes.push(operation);
        if capture.origin != stream {
            capture.unjoined.insert(stream, capture.nodes.len());
        }
        Ok(())
    }

    /// An event recorded in a capturing stream marks a place in the capture.
    pub(crate) fn mark_capture(&mut self, id: u64, stream: u64) -> Outcome<CaptureMark> {
        let capture = self.valid_capture(id)?;
        Ok(CaptureMark { capture: id, stream, position: capture.nodes.len() })
    }

    /// A stream waits for an event of a capture: it joins the capture, or is joined to it.
    pub(crate) fn join_capture(&mut self, stream: u64, mark: CaptureMark) -> Outcome {
        match self.capture_of(stream) {
            Some(other) if other != mark.capture => return Err(Code::STREAM_CAPTURE_MERGE),
            _ => {}
        }
        let capture = self.valid_capture(mark.capture)?;
        if capture.unjoined.get(&mark.stream).is_some_and(|last| *last <= mark.position) {
            capture.unjoined.remove(&mark.stream);
        }
        if capture.origin != stream {
            let nodes = capture.nodes.len();
            capture.unjoined.insert(stream, nodes);
        }
        if let Some(found) = self.timeline.stream_mut(stream) {
            found.capture = Some(mark.capture);
        }
        Ok(())
    }

    fn valid_capture(&mut self, id: u64) -> Outcome<&mut Capture> {
        match self.captures.running.get_mut(&id) {
            Some(capture) if capture.valid => Ok(capture),
            _ => Err(Code::STREAM_CAPTURE_INVALIDATED),
        }
    }
}

#[cfg(test)]
mod tests;
