//! A device in a summary: the equation of its memory, who holds it, the pool.

use std::fmt::Write;

use cenote::report::{Device, Kind, Memory, Owner, Pool, Report};

use crate::free;
use crate::render::{HEADING, bytes, count, duration, paint, percent, plural, signed_bytes, table};
use crate::reports::is_of_an_exit;

/// Age of a sample that goes without saying.
const FRESH_NS: u64 = 100_000_000;

/// Its memory: the equation, the peaks, by kind and by owner.
pub(super) fn memory(device: &Device, report: &Report) -> String {
    let memory = &device.memory;
    let name = device.name.as_ref().map(|name| format!("  {name}")).unwrap_or_default();
    let heading = format!("GPU {}{name}, {}", device.ordinal, bytes(device.total_bytes));
    let mut text = format!("\n{}\n{}", paint(HEADING, heading), equation(memory, report));
    let _ = writeln!(
        text,
        "  peaks       live {}, reserved {}, driver used {}",
        bytes(memory.peak_live_bytes),
        bytes(device.pool.peak_reserved_bytes),
        bytes(memory.peak_driver_used_bytes),
    );
    if !memory.by_kind.is_empty() {
        let rows = memory.by_kind.iter().map(|(kind, live)| {
            vec![word(*kind), bytes(live.bytes), count(live.blocks), bytes(live.peak_bytes)]
        });
        text.push_str(&table(&["kind", "live", "blocks", "peak"], &[1, 2, 3], rows.collect()));
    }
    if !memory.by_owner.is_empty() {
        let row =
            |owner: &Owner| vec![owner.owner.clone(), bytes(owner.bytes), count(owner.blocks)];
        let rows = memory.by_owner.iter().map(row).collect();
        text.push_str(&table(&["owner", "live", "blocks"], &[1, 2], rows));
    }
    text
}

fn equation(memory: &Memory, report: &Report) -> String {
    if memory.sampled_unix_ns == 0 {
        return "  the driver was never asked what is used\n".to_owned();
    }
    let known = memory.unaccounted_known.iter();
    let known: Vec<_> = known.map(|(cause, n)| format!("{cause} {}", bytes(*n))).collect();
    let known =
        if known.is_empty() { String::new() } else { format!(" (of it {})", known.join(", ")) };
    format!(
        "  driver used {}{} = tracked {} + context {} + unaccounted {}{known}\n",
        bytes(memory.driver_used_bytes),
        age(memory.sampled_unix_ns, report),
        bytes(memory.tracked_bytes),
        bytes(memory.context_bytes),
        signed_bytes(memory.unaccounted_bytes),
    )
}

/// How old the sample is, where that is long enough for the pool's numbers to have moved on.
fn age(sampled_unix_ns: u64, report: &Report) -> String {
    let process = &report.process;
    let end_unix_ns = process.started_unix_ns.saturating_add(process.duration_ns);
    let age_ns = end_unix_ns.saturating_sub(sampled_unix_ns);
    if age_ns <= FRESH_NS {
        return String::new();
    }
    let end = if is_of_an_exit(report) { "the end" } else { "the last sign of life" };
    format!(" (sampled {} before {end})", duration(age_ns))
}

/// A kind as the JSON has it.
fn word(kind: Kind) -> String {
    let json = serde_json::to_value(kind).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

/// Its pool, and how fragmented that is.
pub(super) fn pool(device: &Device, report: &Report) -> String {
    let pool = &device.pool;
    if free::served_nothing(device) {
        return format!("  pool        {}\n", free::nothing_served(report));
    }
    let limit =
        pool.limit_bytes.map(|limit| format!(", limit {}", bytes(limit))).unwrap_or_default();
    let hits = pool.hits as f64 / pool.allocations.max(1) as f64;
    let mut text = format!(
        "  pool        reserved {} = live {} + cached {} + waiting {} + internal {}{limit}\n  \
           \x20           {} hits of {}; the driver was asked {} and given back {}\n",
        bytes(pool.reserved_bytes),
        bytes(pool.live_bytes),
        bytes(pool.cached_bytes),
        bytes(pool.waiting_bytes),
        bytes(pool.internal_bytes),
        percent(hits),
        plural(pool.allocations, "allocation"),
        plural(pool.driver_allocations, "time"),
        plural(pool.driver_frees, "time"),
    );
    text.push_str(&rare(pool));
    let _ = writeln!(text, "  fragmented  {}", fragmentation_line(device));
    text
}

/// Counters that are 0 in a job without trouble.
fn rare(pool: &Pool) -> String {
    let rare = [
        ("waits", pool.waits),
        ("flushes", pool.flushes),
        ("garbage collections", pool.garbage_collections),
        ("idle releases", pool.idle_releases),
        ("refused", pool.out_of_memory),
        ("exported blocks", pool.exported_blocks),
    ];
    let rare = rare.iter().filter(|(_, number)| *number > 0);
    let rare: Vec<_> = rare.map(|(name, number)| format!("{name} {}", count(*number))).collect();
    if rare.is_empty() { String::new() } else { format!("              {}\n", rare.join(", ")) }
}

/// Fragmentation in one line, with what can't go back.
fn fragmentation_line(device: &Device) -> String {
    let stranded = &device.fragmentation.stranded;
    let total = stranded
        .pinned_by_live_bytes
        .saturating_add(stranded.waiting_bytes)
        .saturating_add(stranded.exported_bytes);
    let line = free::line(device);
    if total == 0 || free::only_waits(device) {
        return line;
    }
    format!("{line}; stranded {}", bytes(total))
}
