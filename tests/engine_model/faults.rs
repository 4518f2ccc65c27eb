//! Calls of the card that fail on order.

use cenote::cuda::CuResult;

/// A call of the card that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Reserve,
    Create,
    Map,
    Enable,
    Unmap,
    Release,
    Record,
    IsDone,
    Wait,
}

impl Call {
    pub(crate) const ALL: [Call; 9] = [
        Call::Reserve,
        Call::Create,
        Call::Map,
        Call::Enable,
        Call::Unmap,
        Call::Release,
        Call::Record,
        Call::IsDone,
        Call::Wait,
    ];
}

/// Out of memory, which the engine may mend, and a failed launch, which nobody can.
pub(crate) const CODES: [CuResult; 2] = [CuResult::OUT_OF_MEMORY, CuResult(719)];

/// What is to fail, and what did.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    counts: [u64; Call::ALL.len()],
    order: Option<(Call, u64, CuResult)>,
    /// The call that failed on order.
    pub(crate) fired: Option<Call>,
}

impl Faults {
    /// The `n`-th call of a kind from now fails, counted from 0.
    pub(crate) fn order(&mut self, call: Call, n: u64, code: CuResult) {
        self.order = Some((call, n + self.count(call), code));
    }

    /// Calls of a kind so far.
    pub(crate) fn count(&self, call: Call) -> u64 {
        self.counts[call as usize]
    }

    /// The answer to the next call of a kind.
    pub(crate) fn next(&mut self, call: Call) -> Result<(), CuResult> {
        let n = self.count(call);
        self.counts[call as usize] += 1;
        let Some((_, _, code)) = self.order.filter(|&(kind, at, _)| (kind, at) == (call, n)) else {
            return Ok(());
        };
        self.fired = Some(call);
        Err(code)
    }
}
