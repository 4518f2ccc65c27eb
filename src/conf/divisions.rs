//! The value of `roundup_power2_divisions`, in the words of PyTorch: into how many parts the way from one power of two to the next
//! is divided, for each power of two. A size is rounded up to the next part.

/// Intervals that are told apart: from 1 MiB, 2 MiB, ... up to 32 GiB; the first is for all sizes below too, the last for all above.
const INTERVALS: usize = 16;
/// The first interval begins at 2 to the power of this.
const FIRST_BITS: u32 = 20;
/// What sizes are a multiple of anyway.
const UNIT: u64 = 512;

/// Parts of each interval between powers of two; 0 and 1 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divisions([u64; INTERVALS]);

impl Divisions {
    /// No size is rounded.
    pub const NONE: Divisions = Divisions([0; INTERVALS]);

    /// Whether no size is rounded by them.
    pub fn are_none(&self) -> bool {
        self.0.iter().all(|&parts| parts <= 1)
    }

    /// What a request takes: the next multiple of 512 bytes, or of its interval's part. None beyond 2^64.
    ///
    /// ```
    /// let (settings, _) = cenote::conf::parse("roundup_power2_divisions:4");
    /// assert_eq!(settings.roundup_power2_divisions.round(1200 << 20), Some(1280 << 20));
    /// ```
    pub fn round(&self, bytes: u64) -> Option<u64> {
        let bytes = bytes.max(1);
        let interval = bytes.ilog2().saturating_sub(FIRST_BITS) as usize;
        let parts = self.0[interval.min(INTERVALS - 1)];
        let part = match parts > 1 && bytes > UNIT.saturating_mul(parts) {
            true => (1 << bytes.ilog2()) / parts,
            false => UNIT,
        };
        bytes.checked_next_multiple_of(part)
    }
}

/// `4`, or `[256:1,512:2,1024:4,>:8]` by MiB. As in PyTorch the first of a list holds for all smaller sizes too, an interval that
/// is left out is not divided, and `>` is for all beyond the last.
pub(super) fn divisions(text: &str) -> Option<Divisions> {
    let Some(list) = text.strip_prefix('[') else {
        return parts(text).map(|parts| Divisions([parts; INTERVALS]));
    };
    let mut table = [0; INTERVALS];
    let mut last = None;
    for pair in list.strip_suffix(']')?.split(',') {
        let (from, value) = pair.split_once(':')?;
        let value = parts(value)?;
        if from.trim() == ">" {
            table[last.map_or(0, |last| last + 1)..].fill(value);
            last = Some(INTERVALS - 1);
            continue;
        }
        let from: u64 = from.trim().parse().ok().filter(|&from: &u64| from.is_power_of_two())?;
        let interval = (from.ilog2() as usize).min(INTERVALS - 1);
        let first = if last.is_none() { 0 } else { interval };
        table[first..=interval].fill(value);
        last = Some(interval);
    }
    Some(Divisions(table))
}

/// Into how many parts; 0 for none.
fn parts(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|&parts: &u64| parts == 0 || parts.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_list_as_pytorch_reads_it() {
        let table = divisions("[256:1, 512:2, 1024:4, >:8]").unwrap();
        // Measured with PyTorch 2.11.
        for (asked, given) in [(300, 300), (600, 768), (1100, 1280), (2100, 2304), (5000, 5120)] {
            assert_eq!(table.round(asked * MIB), Some(given * MIB), "{asked} MiB");
        }
        let smaller = divisions("[4:4,32:2]").unwrap();
        assert_eq!(smaller.round(MIB + 1), Some(MIB + MIB / 4), "the first is for smaller ones");
        assert_eq!(smaller.round(9 * MIB + 1), Some(9 * MIB + 512), "8 and 16 are left out");
        assert_eq!(smaller.round(65 * MIB), Some(65 * MIB), "nothing beyond the last");
    }

    #[test]
    fn a_number_is_for_every_size() {
        let four = divisions("4").unwrap();
        for (asked, given) in [
            (0, 512),
            (1, 512),
            (512, 512),
            (2048, 2048),
            // Above 512 bytes for each part.
            (2049, 2560),
            (4 * MIB, 4 * MIB),
            (4 * MIB + 1, 5 * MIB),
        ] {
            assert_eq!(four.round(asked), Some(given), "{asked}");
        }
        assert_eq!(four.round(u64::MAX), None);
        assert!(divisions("0").unwrap().are_none() && divisions("1").unwrap().are_none());
        assert_eq!(divisions("1").unwrap().round(1300), Some(1536));
    }

    #[test]
    fn what_is_no_list() {
        for text in ["", "3", "-4", "[", "[]", "[256]", "[256:3]", "[300:2]", "[256:1", "[>:]"] {
            assert_eq!(divisions(text), None, "{text:?}");
        }
    }
}
