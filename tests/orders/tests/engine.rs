//! The engine's threads in many made-up orders: every lock and every atomic is a place where another thread may go on. Built and run
//! by `scripts/orders`; `CENOTE_ORDERS` sets how many orders.
#![cfg(cenote_shuttle)]

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "../../engine_model"]
mod engine_model {
    pub(crate) mod card;
    pub(crate) mod checks;
    pub(crate) mod faults;
    pub(crate) mod memory;
    pub(crate) mod operation;
    pub(crate) mod threads;
    pub(crate) mod time;
    pub(crate) mod uses;
    pub(crate) mod world;
}

use engine_model::threads;

fn orders(play: impl Fn() + Send + Sync + Clone + 'static) {
    let count =
        std::env::var("CENOTE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    shuttle::check_random(play.clone(), count);
    // Few switches, at places that are hit with a known chance: what needs two or three of them to go wrong.
    shuttle::check_pct(play, count, 3);
}

#[test]
fn threads_that_hand_blocks_over() {
    orders(|| threads::run(240));
}

#[test]
fn streams_that_come_and_go() {
    orders(|| threads::come_and_go(6));
}
