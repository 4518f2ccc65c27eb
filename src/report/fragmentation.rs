//! How far free memory is from being useful: one number for each reason, from the segments of a pool.

use super::{Fragmentation, Pool, Segment, Stranded};

/// Slots of one state that lie side by side in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// `L` live, `f` free, `w` waiting, `x` exported.
    pub state: char,
    /// Number of slots.
    pub slots: u64,
}

/// The runs of [`Segment::map`]: `L3f1` is three live slots and a free one. A letter without a number is one slot.
pub fn runs(map: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut counted = false;
    for c in map.chars() {
        match (c.to_digit(10), runs.last_mut()) {
            (Some(digit), Some(run)) => {
                let before = if counted { run.slots } else { 0 };
                run.slots = before.saturating_mul(10).saturating_add(u64::from(digit));
                counted = true;
            }
            (Some(_), None) => {}
            (None, _) => {
                runs.push(Run { state: c, slots: 1 });
                counted = false;
            }
        }
    }
    runs
}

/// The numbers for a device. Without segments (a report made from the mapped page alone), what the counters tell: the
/// largest free block is then unknown, and 0.
pub fn measure(pool: &Pool, segments: &[Segment]) -> Fragmentation {
    let mut sum = Fragmentation {
        internal_ratio: ratio(pool.internal_bytes, pool.reserved_bytes),
        ..Fragmentation::default()
    };
    if segments.is_empty() {
        sum.free_bytes = pool.cached_bytes.saturating_add(pool.waiting_bytes);
        sum.stranded.waiting_bytes = pool.waiting_bytes;
        return sum;
    }
    for segment in segments {
        add(&mut sum, segment);
    }
    if sum.free_bytes > 0 {
        sum.external_ratio = 1.0 - ratio(sum.largest_free_bytes, sum.free_bytes);
    }
    sum
}

fn add(sum: &mut Fragmentation, segment: &Segment) {
    let runs = runs(&segment.map);
    let slot = segment.slot_bytes.unwrap_or(segment.bytes);
    let bytes = |state: char| {
        let slots = runs.iter().filter(|run| run.state == state).map(|run| run.slots);
        slots.fold(0, u64::saturating_add).saturating_mul(slot)
    };
    let (live, free, waiting, exported) = (bytes('L'), bytes('f'), bytes('w'), bytes('x'));
    sum.free_bytes = sum.free_bytes.saturating_add(free).saturating_add(waiting);
    if free > 0 {
        sum.largest_free_bytes = sum.largest_free_bytes.max(slot);
    }
    let Stranded { pinned_by_live_bytes, waiting_bytes, exported_bytes } = &mut sum.stranded;
    *waiting_bytes = waiting_bytes.saturating_add(waiting);
    *exported_bytes = exported_bytes.saturating_add(exported);
    if live > 0 {
        *pinned_by_live_bytes = pinned_by_live_bytes.saturating_add(free);
    } else if segment.exported {
        *exported_bytes = exported_bytes.saturating_add(free);
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(bytes: u64, slot_bytes: Option<u64>, map: &str) -> Segment {
        let address = "0x7f0000000000".to_owned();
        let map = map.to_owned();
        Segment {
            address,
            bytes,
            live_bytes: 0,
            waiting_bytes: 0,
            slot_bytes,
            exported: false,
            map,
        }
    }

    #[test]
    fn maps() {
        let run = |state, slots| Run { state, slots };
        assert_eq!(runs("L3f10x"), [run('L', 3), run('f', 10), run('x', 1)]);
        assert_eq!(runs("7"), []);
        assert_eq!(runs(""), []);
        assert_eq!(runs("f99999999999999999999999")[0].slots, u64::MAX);
    }

    #[test]
    fn one_number_for_each_reason() {
        let mib = 1 << 20;
        let segments = [
            segment(2 * mib, Some(mib / 2), "L1f2w1"),
            segment(8 * mib, None, "f"),
            segment(4 * mib, None, "L"),
            segment(6 * mib, None, "w"),
        ];
        let pool = Pool { reserved_bytes: 20 * mib, internal_bytes: mib, ..Pool::default() };
        let found = measure(&pool, &segments);
        assert_eq!(found.largest_free_bytes, 8 * mib);
        assert_eq!(found.free_bytes, 8 * mib + mib + mib / 2 + 6 * mib);
        assert_eq!(found.stranded.pinned_by_live_bytes, mib);
        assert_eq!(found.stranded.waiting_bytes, 6 * mib + mib / 2);
        assert_eq!(found.internal_ratio, 0.05);
        assert!((found.external_ratio - (1.0 - 8.0 / 15.5)).abs() < 1e-12);
    }
}
