//! What a program asks the device to do, by address: kernels, fills and copies.
//!
//! A capture keeps operations and a graph launch plans them anew, so that a replay meets the
//! memory that is at the addresses then.

use crate::address::Fault;
use crate::clock::Time;
use crate::code::{Code, Outcome};
use crate::physical::Extent;
use crate::state::Sim;
use crate::timeline::{Effect, Plan, Touch};
use crate::violation::violation;

/// Fixed cost of a copy or fill, and the speed of all of them: 25 bytes a nanosecond.
const OVERHEAD_NS: Time = 1000;
const BYTES_PER_NS: u64 = 25;

/// A request to the device.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A kernel of the tests: touches a range, and writes `value` to it if there is one.
    Kernel {
        duration: Time,
        to: u64,
        len: u64,
        value: Option<u8>,
    },
    Fill {
        to: u64,
        len: u64,
        value: u8,
    },
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    Download {
        from: u64,
        len: u64,
        host: u64,
    },
    Copy {
        from: u64,
        to: u64,
        len: u64,
    },
}

impl Operation {
    fn name(&self) -> &'static str {
        match self {
            Operation::Kernel { .. } => "kernel",
            Operation::Fill { .. } => "memset",
            Operation::Upload { .. } => "copy to the device",
            Operation::Download { .. } => "copy to the host",
            Operation::Copy { .. } => "copy on the device",
        }
    }

    fn duration(&self) -> Time {
        match self {
            Operation::Kernel { duration, .. } => *duration,
            Operation::Upload { bytes, .. } => OVERHEAD_NS + bytes.len() as u64 / BYTES_PER_NS,
            Operation::Fill { len, .. }
            | Operation::Download { len, .. }
            | Operation::Copy { len, .. } => OVERHEAD_NS + len / BYTES_PER_NS,
        }
    }
}

impl Sim {
    /// Submits an operation to a stream; gives the time of its end.
    pub(crate) fn execute(&mut self, stream: u64, operation: Operation) -> Outcome<Time> {
        let context = self.timeline.stream(stream).ok_or(Code::INVALID_HANDLE)?.context;
        let plan = self.plan(context, operation)?;
        let now = self.now();
        Ok(self.timeline.submit(stream, plan, now))
    }

    fn plan(&self, context: u64, operation: Operation) -> Outcome<Plan> {
        let (what, duration) = (operation.name(), operation.duration());
        let touch = |address, len, write| {
            self.resolve(context, address, len, write)
                .map_err(|(place, fault)| refuse(what, place, fault))
        };
        let (touches, effects) = match operation {
            Operation::Kernel { to, len, value, .. } => {
                let touches = touch(to, len, value.is_some())?;
                let effects = value.map_or_else(Vec::new, |value| fills(&touches, value));
                (touches, effects)
            }
            Operation::Fill { to, len, value } => {
                let touches = touch(to, len, true)?;
                let effects = fills(&touches, value);
                (touches, effects)
            }
            Operation::Upload { to, bytes } => {
                let touches = touch(to, bytes.len() as u64, true)?;
                let effects = stores(&touches, &bytes);
                (touches, effects)
            }
            Operation::Download { from, len, host } => {
                let touches = touch(from, len, false)?;
                let from = touches.iter().map(|touch| touch.extent).collect();
                (touches, vec![Effect::Fetch { from, host }])
            }
            Operation::Copy { from, to, len } => {
                let mut touches = touch(from, len, false)?;
                let targets = touch(to, len, true)?;
                let from = touches.iter().map(|touch| touch.extent).collect();
                let to = targets.iter().map(|touch| touch.extent).collect();
                touches.extend(targets);
                (touches, vec![Effect::Copy { from, to }])
            }
        };
        Ok(Plan { what, duration, touches, effects })
    }

    /// Does what ended work does to memory.
    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Fill { to, value } => self.physical.fill(to, value),
            Effect::Store { to, bytes } => self.physical.store(to, &bytes),
            Effect::Copy { from, to } => {
                let bytes = self.kept_bytes(&from);
                let mut rest = bytes.as_slice();
                for extent in to {
                    let (now, later) = rest.split_at(rest.len().min(extent.len as usize));
                    self.physical.store(extent, now);
                    rest = later;
                }
            }
            Effect::Fetch { from, host } => {
                let mut place = host as *mut u8;
                for extent in from {
                    let bytes = self.physical.load(extent);
                    // SAFETY: the program keeps its host buffer valid until the copy has ended,
                    // which is the driver's own contract for this call.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
                    place = place.wrapping_add(extent.len as usize);
                }
            }
        }
    }

    /// The bytes of a list of extents, up to the first that is not kept.
    fn kept_bytes(&self, extents: &[Extent]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for extent in extents {
            let piece = self.physical.load(*extent);
            bytes.extend_from_slice(&piece);
            if (piece.len() as u64) < extent.len {
                break;
            }
        }
        bytes
    }

    /// Whether every kept byte of the range has the value.
    pub(crate) fn holds(&self, touches: &[Touch], value: u8) -> bool {
        touches
            .iter()
            .all(|touch| self.physical.load(touch.extent).iter().all(|byte| *byte == value))
    }
}

/// Reports a bad access; the driver would fail the context later, this fails the call.
pub(crate) fn refuse(what: &str, place: u64, fault: Fault) -> Code {
    violation!("{what} touches {place:#x}: {}", fault.text());
    Code::ILLEGAL_ADDRESS
}

fn fills(touches: &[Touch], value: u8) -> Vec<Effect> {
    touches.iter().map(|touch| Effect::Fill { to: touch.extent, value }).collect()
}

fn stores(touches: &[Touch], bytes: &[u8]) -> Vec<Effect> {
    let mut rest = bytes;
    let mut effects = Vec::new();
    for touch in touches {
        let (now, later) = rest.split_at(rest.len().min(touch.extent.len as usize));
        effects.push(Effect::Store { to: touch.extent, bytes: now.to_vec() });
        rest = later;
    }
    effects
}
