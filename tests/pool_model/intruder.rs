//! Another thread, without a thread: what it does happens at chosen moments of the calls that the pool makes without its
//! lock. So interleavings are found by a deterministic search, and shrink like any other sequence.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

type Visit = Box<dyn FnOnce(Moment)>;

/// Where in a call another thread acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The call is made already, and must not be during a capture: none can begin.
    NoCapture,
    /// The same, and others that synchronise wait for this one.
    Synchronising,
    Any,
}

thread_local! {
    /// Moments to let pass since the visit before, and what happens then.
    static PLAN: RefCell<VecDeque<(u32, Visit)>> = const { RefCell::new(VecDeque::new()) };
    static ACTED: Cell<bool> = const { Cell::new(false) };
    static ACTS: Cell<bool> = const { Cell::new(false) };
}

/// At the `moments`-th moment after the visit that was planned before, counted from 0, this happens. Each call of the
/// driver without the pool's lock has two: when it begins and when it has ended.
pub(crate) fn plan(moments: u32, visit: impl FnOnce(Moment) + 'static) {
    PLAN.with(|plan| plan.borrow_mut().push_back((moments, Box::new(visit))));
}

/// Nothing is planned any more, and nothing happened.
pub(crate) fn cancel() {
    ACTED.set(false);
    ACTS.set(false);
    let planned = PLAN.with(|plan| plan.take());
    drop(planned);
}

/// Whether a plan was carried out since the last [`cancel`].
pub(crate) fn acted() -> bool {
    ACTED.get()
}

/// A moment at which others may act; the other thread's own calls are none.
pub(crate) fn visit(moment: Moment) {
    if ACTS.get() {
        return;
    }
    let due = PLAN.with(|plan| {
        let mut plan = plan.borrow_mut();
        match plan.front_mut() {
            Some((0, _)) => plan.pop_front(),
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
            ACTS.set(true);
            act(moment);
            ACTS.set(false);
        }
        None => std::thread::yield_now(),
    }
}
