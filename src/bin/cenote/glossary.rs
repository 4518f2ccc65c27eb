//! What each number means, in one line. The same words are the keys of the JSON and the columns of the tables.

/// Term and explanation, in the order in which `cenote summary` shows them.
pub(crate) const GLOSSARY: &[(&str, &str)] = &[
    ("driver used", "device memory in use by all processes, as the driver says (cuMemGetInfo)"),
    (
        "tracked",
        "what this process holds through calls that cenote saw: reserved by the pool, and the rest as requested",
    ),
    (
        "context",
        "in use when the first context of this process was seen: the context itself, and other processes",
    ),
    (
        "unaccounted",
        "the rest: kernels that were loaded, tables of the driver, other processes since then",
    ),
    ("modules", "the part of unaccounted that came while kernels were loaded"),
    ("streams", "the part of unaccounted that came while streams were made"),
    ("live", "in the program's hands, as requested"),
    ("reserved", "what the pool has from the driver: live + cached + waiting + internal"),
    ("cached", "free in the pool, ready for the next request; other programs see it as used"),
    ("waiting", "freed by the program, while work that may use it is not known to be done"),
    ("internal", "given to live blocks beyond what was requested, by rounding"),
    ("limit", "what the process may hold on the device, by limit or per_process_memory_fraction"),
    ("refused", "requests that were answered with out of memory"),
    (
        "hits",
        "allocations that needed nothing from the driver, though one may have taken a spare block",
    ),
    ("waits", "allocations that waited for work to end rather than take more memory"),
    ("flushes", "times that everything cached was given back to serve a request"),
    ("internal fragmentation", "internal over reserved"),
    (
        "external fragmentation",
        "1 - largest free block / free bytes: near 100% means much free in small pieces",
    ),
    ("largest free", "the largest request that needs nothing from the driver"),
    (
        "stranded",
        "free bytes that can't go back or serve a large request: beside live blocks, waiting, or exported",
    ),
    ("pooled", "cuMemAlloc or cudaMalloc that the pool serves"),
    ("direct", "cuMemAlloc that went to the driver"),
    ("async", "stream-ordered: cudaMallocAsync"),
    ("vmm", "cuMemCreate: PyTorch's expandable segments, NCCL's buffers"),
    ("managed", "cudaMallocManaged"),
    ("suspects", "live at exit and growing or never freed; see cenote leaks"),
];

/// The whole list.
pub(crate) fn text() -> String {
    let width = GLOSSARY.iter().map(|(term, _)| term.len()).max().unwrap_or(0);
    GLOSSARY.iter().map(|(term, meaning)| format!("  {term:width$}  {meaning}\n")).collect()
}
