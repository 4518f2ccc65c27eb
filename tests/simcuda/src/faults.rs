//! Failures and delays that a test asks for: `SIMCUDA_FAIL` and `SIMCUDA_LATENCY`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::code::{Code, Outcome};

/// Which calls of a function fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Every,
    Only(u64),
    From(u64),
}

impl Which {
    fn parse(text: &str) -> Option<Which> {
        if text == "*" {
            return Some(Which::Every);
        }
        match text.strip_suffix('-') {
            Some(first) => first.parse().ok().map(Which::From),
            None => text.parse().ok().map(Which::Only),
        }
    }

    fn covers(self, nth: u64) -> bool {
        match self {
            Which::Every => true,
            Which::Only(n) => nth == n,
            Which::From(n) => nth >= n,
        }
    }
}

/// The injected faults of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    failures: HashMap<String, Vec<(Which, Code)>>,
    delays: HashMap<String, Duration>,
}

impl Faults {
    /// Reads items `name:n=code`, `name:n-=code`, `name:*=code`, and delays `name=microseconds`.
    pub(crate) fn parse(failures: &[String], delays: &[String]) -> Faults {
        let mut faults = Faults::default();
        for item in failures {
            match parse_failure(item) {
                Some((name, rule)) => faults.failures.entry(name).or_default().push(rule),
                None => eprintln!("simcuda: cannot read the failure {item:?}"),
            }
        }
        for item in delays {
            match item.split_once('=').and_then(|(name, us)| Some((name, us.parse().ok()?))) {
                Some((name, us)) => {
                    faults.delays.insert(name.into(), Duration::from_micros(us));
                }
                None => eprintln!("simcuda: cannot read the latency {item:?}"),
            }
        }
        faults
    }

    /// Spends the function's delay, then fails if its `nth` call (from 1) is to fail.
    pub(crate) fn apply(&self, name: &str, nth: u64) -> Outcome {
        if let Some(delay) = self.delays.get(name) {
            let start = Instant::now();
            while start.elapsed() < *delay {
                std::hint::spin_loop();
            }
        }
        let rules = self.failures.get(name).map_or(&[][..], Vec::as_slice);
        match rules.iter().find(|(which, _)| which.covers(nth)) {
            Some((_, code)) => Err(*code),
            None => Ok(()),
        }
    }
}

fn parse_failure(item: &str) -> Option<(String, (Which, Code))> {
    let (place, code) = item.split_once('=')?;
    let (name, which) = place.split_once(':')?;
    Some((name.into(), (Which::parse(which)?, Code(code.parse().ok()?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_by_number_range_and_star() {
        let items = ["a:2=2", "b:3-=999", "c:*=1"].map(String::from);
        let faults = Faults::parse(&items, &[]);
        let fails = |name: &str, nth| faults.apply(name, nth).err().map(|code| code.0);
        assert_eq!([fails("a", 1), fails("a", 2), fails("a", 3)], [None, Some(2), None]);
        assert_eq!([fails("b", 2), fails("b", 3), fails("b", 9)], [None, Some(999), Some(999)]);
        assert_eq!([fails("c", 1), fails("d", 1)], [Some(1), None]);
    }
}
