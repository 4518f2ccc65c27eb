//! Allocation traces of real jobs, played to the engine on a card that is simulated: what it would have held, moved and asked of
//! the driver, on any machine.
//!
//! A replay has no kernels: every event on the card is done at once, so nothing ever waits. What is measured is where memory
//! goes and what the driver is asked for, not what work in flight holds back.
//!
//! # Not here
//! Nothing reads the environment, prints, or looks at a real card. The library to preload carries none of this.
#![forbid(unsafe_code)]

mod advise;
mod books;
mod card;
mod check;
mod costs;
mod error;
mod inflate;
mod leb;
mod outcome;
mod run;
mod trace;

pub use advise::{Advice, Advised, Goal, Measure, advise};
pub use books::Violation;
pub use card::SimCard;
pub use error::TraceError;
pub use outcome::{FailedAt, Outcome, ReplayError, Setup};
pub use run::{card_bytes, min_cap_ratio, replay};
pub use trace::{Event, Trace};
