//! Calls of the card that fail on order.

use cenote::cuda::CuResult;

/// A call of the driver that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Allocate,
    Free,
    Record,
    IsDone,
    Wait,
    Synchronise,
}

impl Call {
    pub(crate) const ALL: [Call; 6] =
        [Call::Allocate, Call::Free, Call::Record, Call::IsDone, Call::Wait, Call::Synchronise];
}

/// Codes to fail with: out of memory, an illegal address, an invalid value, a failed launch.
pub(crate) const CODES: [CuResult; 4] =
    [CuResult::OUT_OF_MEMORY, CuResult(700), CuResult::INVALID_VALUE, CuResult(719)];

/// What is to fail.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    ordered: Vec<(Call, u64, CuResult)>,
    /// The context is broken: every call fails.
    pub(crate) sticky: Option<CuResult>,
}

impl Faults {
    /// The `n`-th call of a kind from now fails, counted from 0.
    pub(crate) fn order(&mut self, call: Call, n: u64, code: CuResult) {
        self.ordered.push((call, n, code));
    }

    pub(crate) fn are_ordered(&self) -> bool {
        !self.ordered.is_empty() || self.sticky.is_some()
    }

    /// The answer to the next call of a kind.
    pub(crate) fn next(&mut self, call: Call) -> Result<(), CuResult> {
        if let Some(code) = self.sticky {
            return Err(code);
        }
        let mut answer = Ok(());
        self.ordered.retain_mut(|(kind, n, code)| {
            let hit = *kind == call && *n == 0;
            if hit {
                answer = Err(*code);
            } else if *kind == call {
                *n -= 1;
            }
            !hit
        });
        answer
    }
}
