//! The numbers of each device: its memory, its pool, its segments.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ledger::{Counter, DeviceBook, PoolBook};

use super::sites::Tally;
use super::{Device, Kind, Leak, Live, Memory, Owner, Pool, Segment, Snapshot, fragmentation};

/// Segments of each device in a report.
const SEGMENTS: usize = 4096;

/// Kinds that live on a device.
const DEVICE_KINDS: [Kind; 5] = [Kind::Pooled, Kind::Direct, Kind::Async, Kind::Vmm, Kind::Managed];

/// Live device memory by owner, summed over every site there is.
pub(super) struct Owners(HashMap<u32, BTreeMap<String, (u64, u64)>>);

impl Owners {
    pub(super) fn sum(tallies: &[Tally]) -> Self {
        let mut sums: HashMap<u32, BTreeMap<String, (u64, u64)>> = HashMap::new();
        for site in tallies.iter().filter(|site| site.kind != Kind::Host && site.live_blocks > 0) {
            let owners = sums.entry(site.device).or_default();
            let (bytes, blocks) = owners.entry(site.owner.clone()).or_default();
            *bytes = bytes.saturating_add(site.live_bytes);
            *blocks = blocks.saturating_add(site.live_blocks);
        }
        Owners(sums)
    }

    fn take(&mut self, device: u32) -> Vec<Owner> {
        let sums = self.0.remove(&device).unwrap_or_default().into_iter();
        let mut owners: Vec<_> =
            sums.map(|(owner, (bytes, blocks))| Owner { owner, bytes, blocks }).collect();
        owners.sort_by_key(|owner| Reverse(owner.bytes));
        owners
    }
}

/// An entry for each device that the process used, and how many segments were cut.
pub(super) fn describe(
    snapshot: &Snapshot<'_>,
    mut owners: Owners,
    mut leaks: HashMap<u32, Vec<Leak>>,
) -> (Vec<Device>, u64) {
    let mut segments: HashMap<u32, Vec<Segment>> = HashMap::new();
    for (device, segment) in &snapshot.segments {
        segments.entry(*device).or_default().push(segment.clone());
    }
    let mut cut = 0;
    let books = (0..).zip(&snapshot.books.devices);
    let used = books.filter(|(_, book)| book.used.load(Relaxed) != 0);
    let devices = used.map(|(ordinal, book)| {
        let mut segments = segments.remove(&ordinal).unwrap_or_default();
        let pool = Pool::of(&book.pool);
        let fragmentation = fragmentation::measure(&pool, &segments);
        segments.sort_by_key(|segment| Reverse(segment.bytes));
        cut += segments.len().saturating_sub(SEGMENTS) as u64;
        segments.truncate(SEGMENTS);
        let names = snapshot.devices.iter().find(|(device, ..)| *device == ordinal);
        let known = |text: &String| (!text.is_empty()).then(|| text.clone());
        Device {
            ordinal,
            name: names.and_then(|(_, name, _)| known(name)),
            uuid: names.and_then(|(_, _, uuid)| known(uuid)),
            total_bytes: book.total_bytes.load(Relaxed),
            memory: Memory::of(book, owners.take(ordinal)),
            pool,
            fragmentation,
            leaks: leaks.remove(&ordinal).unwrap_or_default(),
            segments,
        }
    });
    (devices.collect(), cut)
}

impl Live {
    pub(super) fn of(counter: &Counter) -> Self {
        Live {
            bytes: counter.bytes.get(),
            blocks: counter.blocks.load(Relaxed),
            peak_bytes: counter.bytes.peak(),
        }
    }
}

impl Memory {
    fn of(book: &DeviceBook, by_owner: Vec<Owner>) -> Self {
        let sampled_unix_ns = book.sampled_unix_ns.load(Relaxed);
        // Without a sample there is no moment at which the equation could hold.
        let at_sample = |value: u64| if sampled_unix_ns == 0 { 0 } else { value };
        let driver_used_bytes = at_sample(book.driver_used.get());
        let tracked_bytes = at_sample(book.tracked_at_sample.load(Relaxed));
        let context_bytes = at_sample(book.context_bytes.load(Relaxed));
        let unaccounted =
            i128::from(driver_used_bytes) - i128::from(tracked_bytes) - i128::from(context_bytes);
        let causes = [("modules", &book.modules_bytes), ("streams", &book.streams_bytes)];
        let known = causes.map(|(cause, bytes)| (cause.to_owned(), bytes.load(Relaxed)));
        let kinds = DEVICE_KINDS.iter().map(|&kind| (kind, Live::of(&book.kinds[kind as usize])));
        Memory {
            sampled_unix_ns,
            driver_used_bytes,
            tracked_bytes,
            context_bytes,
            unaccounted_bytes: i64::try_from(unaccounted).unwrap_or(i64::MAX),
            unaccounted_known: known.into_iter().filter(|&(_, bytes)| bytes > 0).collect(),
            peak_driver_used_bytes: at_sample(book.driver_used.peak()),
            by_kind: kinds.filter(|(_, live)| live.peak_bytes > 0).collect(),
            by_owner,
            peak_live_bytes: book.live.peak(),
        }
    }
}

impl Pool {
    fn of(book: &PoolBook) -> Self {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        Pool {
            reserved_bytes: book.reserved.get(),
            peak_reserved_bytes: book.reserved.peak(),
            live_bytes: book.live.get(),
            live_blocks: count(&book.live_blocks),
            peak_live_bytes: book.live.peak(),
            cached_bytes: book.cached.get(),
            waiting_bytes: book.waiting.get(),
            peak_waiting_bytes: book.waiting.peak(),
            internal_bytes: book.internal.get(),
            limit_bytes: Some(count(&book.limit_bytes)).filter(|&limit| limit > 0),
            allocations: count(&book.allocations),
            frees: count(&book.frees),
            hits: count(&book.hits),
            driver_allocations: count(&book.driver_allocations),
            driver_frees: count(&book.driver_frees),
            events_recorded: count(&book.events_recorded),
            waits: count(&book.waits),
            idle_releases: count(&book.idle_releases),
            garbage_collections: count(&book.garbage_collections),
            flushes: count(&book.flushes),
            out_of_memory: count(&book.out_of_memory),
            exported_blocks: count(&book.exported_blocks),
        }
    }
}
