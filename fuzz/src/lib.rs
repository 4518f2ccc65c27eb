//! What is done with made-up input, one function for each kind of it. A panic is a fault; so is an answer that does not agree with
//! itself. `scripts/fuzz` feeds them.

mod engine;
mod parsers;

/// The engine's model, as its tests have it.
#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../../tests/engine_model"]
mod engine_model {
    pub(crate) mod card;
    pub(crate) mod checks;
    pub(crate) mod faults;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod play;
    pub(crate) mod time;
    pub(crate) mod uses;
    pub(crate) mod world;
}

pub use engine::engine;
pub use parsers::{conf, report, trace};
