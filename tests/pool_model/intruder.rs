//! Another thread, without a thread: what it does happens at a chosen moment of a call that the pool makes without its
//! lock. So interleavings are found by a deterministic search, and shrink like any other sequence.

use std::cell::{Cell, RefCell};

type Visit = Box<dyn FnOnce()>;

thread_local! {
    /// Moments to let pass, and what happens then.
    static PLAN: RefCell<Option<(u32, Visit)>> = const { RefCell::new(None) };
    static ACTED: Cell<bool> = const { Cell::new(false) };
}

/// At the `moments`-th moment from now, counted from 0, this happens. Each call of the driver without the pool's lock has
/// two: when it begins and when it has ended.
pub(crate) fn plan(moments: u32, visit: impl FnOnce() + 'static) {
    PLAN.with(|plan| *plan.borrow_mut() = Some((moments, Box::new(visit))));
}

/// Nothing is planned any more, and nothing happened.
pub(crate) fn cancel() {
    ACTED.set(false);
    PLAN.with(|plan| *plan.borrow_mut() = None);
}

/// Whether a plan was carried out since the last [`cancel`].
pub(crate) fn acted() -> bool {
    ACTED.get()
}

/// A moment at which others may act.
pub(crate) fn visit() {
    let due = PLAN.with(|plan| {
        let mut plan = plan.borrow_mut();
        match &mut *plan {
            Some((0, _)) => plan.take(),
            Some((moments, _)) => {
                *moments -= 1;
                None
            }
            None => None,
        }
    });
    match due {
        Some((_, act)) => {
            ACTED.set(true);
            act();
        }
        None => std::thread::yield_now(),
    }
}
