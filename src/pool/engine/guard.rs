//! A job that keeps moving pages is given more memory.

/// Keeps a steady state from moving the same memory to and fro. When 400 requests had to wait for moves, or four times as many handles
/// have moved as there are, the promise is widened, and from then on after a quarter of that, by twice as much each time: a job that
/// keeps moving is better off with more memory, where there is some. A trim begins anew.
#[derive(Debug, Default)]
pub(super) struct Guard {
    requests: u64,
    moved: u64,
    widenings: u32,
}

impl Guard {
    const REQUESTS: u64 = 400;
    const TIMES: u64 = 4;
    /// The first widening; the last one is to this times 2 to the power of [`MOST`](Self::MOST) less 1.
    const FIRST: f64 = 0.02;
    const MOST: u32 = 7;

    /// A request had so many handles of all moved.
    pub(super) fn moved(&mut self, moved: u64, all: u64) {
        if moved == 0 || self.widenings == Self::MOST {
            return;
        }
        (self.requests, self.moved) = (self.requests + 1, self.moved + moved);
        let part = if self.widenings == 0 { 1 } else { 4 };
        if self.requests > Self::REQUESTS / part || self.moved > all * Self::TIMES / part {
            *self = Guard { requests: 0, moved: 0, widenings: self.widenings + 1 };
        }
    }

    /// Share of the peak of live bytes that the promise is wider by.
    pub(super) fn width(&self) -> f64 {
        if self.widenings == 0 { 0.0 } else { Self::FIRST * f64::from(1 << (self.widenings - 1)) }
    }
}
