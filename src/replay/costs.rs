//! What the driver's calls cost, in nanoseconds of host time by the size of the handle: measured on an H200, driver 580, no
//! kernels running. The cost is that of the handle, however calls are batched.

const MIB: u64 = 1 << 20;

/// Sizes that were measured, in bytes.
const SIZES: [u64; 4] = [2 * MIB, 32 * MIB, 256 * MIB, 1024 * MIB];

/// The costs of one call at those sizes, in nanoseconds.
pub(super) type Costs = [u64; 4];

/// `cuMemCreate`
pub(super) const CREATE: Costs = [12_000, 13_000, 14_000, 20_000];
/// `cuMemMap`
pub(super) const MAP: Costs = [700, 600, 600, 700];
/// `cuMemSetAccess`
pub(super) const ENABLE: Costs = [19_000, 40_000, 42_000, 64_000];
/// `cuMemUnmap`
pub(super) const UNMAP: Costs = [13_000, 21_000, 21_000, 29_000];
/// `cuMemRelease`
pub(super) const RELEASE: Costs = [8_000, 16_000, 73_000, 265_000];
/// `cuMemAddressReserve`: 400 to 14,000.
pub(super) const RESERVE: u64 = 1_000;
/// `cuEventRecord`, `cuEventQuery`
pub(super) const EVENT: u64 = 200;

/// The cost for a handle of `bytes`: on the line between two measured sizes, or on the last one continued.
pub(super) fn of(costs: &Costs, bytes: u64) -> u64 {
    if bytes <= SIZES[0] {
        return costs[0];
    }
    let above = SIZES.iter().position(|&size| bytes <= size).unwrap_or(SIZES.len() - 1);
    let (from, to) = (SIZES[above - 1], SIZES[above]);
    let (low, high) = (costs[above - 1] as f64, costs[above] as f64);
    let share = (bytes - from) as f64 / (to - from) as f64;
    (low + (high - low) * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_and_beyond_what_was_measured() {
        assert_eq!(of(&CREATE, 2 * MIB), 12_000);
        assert_eq!(of(&RELEASE, 17 * MIB), 12_000);
        assert_eq!(of(&MAP, 17 * MIB), 650);
        assert_eq!(of(&UNMAP, 1024 * MIB), 29_000);
        assert_eq!(of(&RELEASE, 1792 * MIB), 457_000);
    }
}
