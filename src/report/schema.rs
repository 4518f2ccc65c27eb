//! The types of `cenote.report/1`, which are its JSON Schema too (`cenote schema`, `docs/schemas/report.v1.json`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::ledger::{EventKind, EventState, Kind};

/// The value of [`Report::schema`].
pub const SCHEMA: &str = "cenote.report/1";

macro_rules! types {
    ($($(#[$meta:meta])* $kind:ident $name:ident { $($body:tt)* })*) => {$(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "cli", derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub $kind $name { $($body)* }
    )*};
}

types! {
/// What one process did with device memory.
struct Report {
    /// Always `cenote.report/1`.
    pub schema: String,
    /// Version of the library that wrote it.
    pub cenote_version: String,
    /// Why it was written.
    pub reason: Reason,
    /// False where the process ended without writing it and the numbers come from its mapped page.
    pub complete: bool,
    /// When it was written, in Unix nanoseconds.
    pub written_unix_ns: u64,
    /// The process.
    pub process: Process,
    /// The configuration in force, key by key.
    pub configuration: BTreeMap<String, String>,
    /// What was hooked, what was seen, what could not be.
    pub coverage: Coverage,
    /// One entry for each device that the process used.
    pub devices: Vec<Device>,
    /// Pinned host memory in use.
    pub host: Live,
    /// Call sites of allocations: those that hold most first.
    pub sites: Vec<Site>,
    /// The frames that sites and events name by index.
    pub frames: Vec<Frame>,
    /// Out-of-memory answers, wrong frees and other things that happened, oldest first.
    pub events: Vec<Event>,
    /// Remarks on this report and on what cenote could not do.
    pub notes: Vec<Note>,
    /// What was cut from the lists.
    pub truncated: Truncated,
}

/// Why a report was written.
#[derive(Copy, Eq)]
#[serde(rename_all = "snake_case")]
enum Reason {
    /// The process returned from main or called `exit`.
    Exit,
    /// The process called `_exit`.
    ImmediateExit,
    /// The process called `abort`, or an exception was not caught.
    Abort,
    /// An allocation was refused.
    OutOfMemory,
    /// Somebody asked.
    Request,
    /// `report_every`.
    Interval,
    /// Made afterwards from the mapped page of a process that is gone.
    Recovered,
}

/// The process that a report is about.
struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent when the first CUDA call was made.
    pub parent_pid: u32,
    /// Path of the program.
    pub executable: String,
    /// The command line; cut after 4096 bytes.
    pub command: Vec<String>,
    /// Name of the machine.
    pub host: String,
    /// First CUDA call, in Unix nanoseconds.
    pub started_unix_ns: u64,
    /// From the first CUDA call to the writing.
    pub duration_ns: u64,
    /// The rank in a distributed job, read when the report was written.
    pub rank: Option<Rank>,
    /// Variables that change how memory is used (allocator settings, visible devices).
    pub environment: BTreeMap<String, String>,
}

/// The place in a distributed job.
struct Rank {
    /// Rank among all.
    pub global: u32,
    /// Rank on this machine.
    pub local: Option<u32>,
    /// Number of ranks.
    pub world: Option<u32>,
    /// The variable that said so.
    pub source: String,
}

/// What cenote could see.
struct Coverage {
    /// `pool`, `observe` or `off`.
    pub mode: String,
    /// Path of the driver library.
    pub driver: Option<String>,
    /// `cuDriverGetVersion`: 13000 is 13.0.
    pub driver_version: Option<u32>,
    /// How functions reached cenote: lookups answered, by door.
    pub doors: Doors,
    /// Each hooked function that the driver has: calls seen; of launches, the first of each kernel.
    pub calls: BTreeMap<String, u64>,
    /// Hooked functions that this driver does not have.
    pub missing: Vec<String>,
    /// Other libraries in LD_PRELOAD.
    pub other_preloads: Vec<String>,
    /// How reuse of freed memory is ordered: `context_event`, `synchronise` or `none`.
    pub order: String,
}

/// Lookups that were answered with a hook, by door.
#[derive(Copy, Eq, Default)]
struct Doors {
    /// Through `dlsym`.
    pub dlsym: u64,
    /// Through `cuGetProcAddress`.
    pub get_proc_address: u64,
}

/// One device.
struct Device {
    /// CUDA ordinal in this process.
    pub ordinal: u32,
    /// Name as the driver gives it.
    pub name: Option<String>,
    /// `GPU-...`
    pub uuid: Option<String>,
    /// Total memory.
    pub total_bytes: u64,
    /// What the memory of the device is used for.
    pub memory: Memory,
    /// The pool's work.
    pub pool: Pool,
    /// How far free memory is from being useful.
    pub fragmentation: Fragmentation,
    /// Live at exit, by class. Empty unless the process has ended.
    pub leaks: Vec<Leak>,
    /// The pool's segments, largest first.
    pub segments: Vec<Segment>,
}

/// `driver_used = tracked + context + unaccounted`, all at the same moment.
#[derive(Default)]
struct Memory {
    /// When the driver was last asked, in Unix nanoseconds; 0 if never.
    pub sampled_unix_ns: u64,
    /// Used on the device at that moment, by all processes (`cuMemGetInfo`).
    pub driver_used_bytes: u64,
    /// Held by this process through calls that cenote saw, at that moment.
    pub tracked_bytes: u64,
    /// In use when this process' context was first seen, before its first allocation: the context itself, and what
    /// other processes held.
    pub context_bytes: u64,
    /// Kernels that were loaded since, tables of the driver, and other processes.
    pub unaccounted_bytes: i64,
    /// What is known about the unaccounted bytes, by cause: `modules` is growth seen across calls that load kernels, `streams`
    /// across calls that make streams.
    pub unaccounted_known: BTreeMap<String, u64>,
    /// The largest `driver_used_bytes` that was sampled.
    pub peak_driver_used_bytes: u64,
    /// Held by the process when the report was written, by kind.
    pub by_kind: BTreeMap<Kind, Live>,
    /// The same by the library that called, largest first.
    pub by_owner: Vec<Owner>,
    /// Most bytes that the program held at once: the sum over all kinds on the device, as requested.
    pub peak_live_bytes: u64,
}

/// Live memory.
#[derive(Copy, Eq, Default)]
struct Live {
    /// Bytes as requested.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Most bytes at once.
    pub peak_bytes: u64,
}

/// Live memory of one library.
struct Owner {
    /// `torch`, `nccl`, `cublas`, `cudnn`, `jax`, `cupy`, `triton`, `program`, a library's file name, or `unknown`.
    pub owner: String,
    /// Bytes as requested.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// Counters of the pool on one device. `reserved = live + cached + waiting + internal`.
#[derive(Default)]
struct Pool {
    /// Device memory that the pool has from the driver.
    pub reserved_bytes: u64,
    /// Most of it at once.
    pub peak_reserved_bytes: u64,
    /// In the program's hands, as requested.
    pub live_bytes: u64,
    /// Blocks in the program's hands.
    pub live_blocks: u64,
    /// Most live bytes at once.
    pub peak_live_bytes: u64,
    /// Free and ready to be handed out.
    pub cached_bytes: u64,
    /// Freed, but work that may use it is not known to be done.
    pub waiting_bytes: u64,
    /// Most waiting bytes at once.
    pub peak_waiting_bytes: u64,
    /// Reserved and of no use: beyond what was requested for live blocks, the ends of slabs, and slots kept for a peer process.
    pub internal_bytes: u64,
    /// The limit in force.
    pub limit_bytes: Option<u64>,
    /// Allocations that the pool served.
    pub allocations: u64,
    /// Frees that the pool took.
    pub frees: u64,
    /// Allocations that needed no memory from the driver, even if one took a spare block for later.
    pub hits: u64,
    /// Calls of the driver's `cuMemAlloc`.
    pub driver_allocations: u64,
    /// Calls of the driver's `cuMemFree`.
    pub driver_frees: u64,
    /// Context events recorded.
    pub events_recorded: u64,
    /// Events that allocations waited for, rather than take more memory or be refused.
    pub waits: u64,
    /// Times that cached memory went back because it was idle.
    pub idle_releases: u64,
    /// Times that `garbage_collection_threshold` freed something.
    pub garbage_collections: u64,
    /// Times that everything cached was given back to serve a request.
    pub flushes: u64,
    /// Requests that were refused.
    pub out_of_memory: u64,
    /// Blocks whose memory a peer process was given.
    pub exported_blocks: u64,
}

/// How far free memory is from being useful. Ratios are 0 to 1.
#[derive(Default)]
struct Fragmentation {
    /// Reserved for live blocks minus requested, over reserved.
    pub internal_ratio: f64,
    /// 1 - largest free block / free bytes.
    pub external_ratio: f64,
    /// Free bytes in the pool, ready or waiting.
    pub free_bytes: u64,
    /// The largest free block: the largest request that needs no memory from the driver.
    pub largest_free_bytes: u64,
    /// Free bytes that cannot go back to the driver or serve a large request, by cause.
    pub stranded: Stranded,
}

/// Stranded bytes by cause.
#[derive(Default)]
struct Stranded {
    /// Free slots of slabs that a live block keeps.
    pub pinned_by_live_bytes: u64,
    /// Work that may use them is not known to be done.
    pub waiting_bytes: u64,
    /// Kept because a peer process may have them open.
    pub exported_bytes: u64,
}

/// Blocks of one site that were live when the process ended.
struct Leak {
    /// Class, with the evidence below.
    pub class: LeakClass,
    /// Index into `sites`.
    pub site: u32,
    /// Bytes live.
    pub bytes: u64,
    /// Blocks live.
    pub blocks: u64,
    /// Of eight equal parts of the run, those in which one of the live blocks was allocated.
    pub parts_of_run: u32,
    /// First and last allocation of these blocks, nanoseconds after the first CUDA call.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

/// Classes of memory that is live at exit. Only the first two are suspects.
#[derive(Copy, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
enum LeakClass {
    /// Blocks of the site are live from at least four parts of the run. In a run under half a second also: at least eight
    /// blocks are live, and no fewer than half of all that the site allocated.
    Growing,
    /// Allocated after the first eighth of the run and never freed. In a run under half a second: at any time.
    NeverFreed,
    /// Allocated in the first eighth of the run: a model, a workspace, a static owner. Also what a library such as cuBLAS
    /// or NCCL keeps, whenever it took it, as long as it does not grow.
    StartUp,
    /// Segments of a caching allocator, which frees nothing at exit by design.
    HeldByCache,
    /// Freed after `exit` had begun, by a static destructor.
    FreedDuringExit,
}

/// A piece of memory that the pool has from the driver in one call.
struct Segment {
    /// Address, `0x...`.
    pub address: String,
    /// Size.
    pub bytes: u64,
    /// Bytes in it that the program holds, as requested.
    pub live_bytes: u64,
    /// Bytes in it that wait for work to end.
    pub waiting_bytes: u64,
    /// Size of its slots, for a slab; none where it is one block.
    pub slot_bytes: Option<u64>,
    /// A peer process may have it open.
    pub exported: bool,
    /// Slots in address order, run by run, for a slab: `L` live, `f` free, `w` waiting, `x` exported, each with a count, as
    /// `L3f1`. One letter otherwise.
    pub map: String,
}

/// A call site: every allocation with the same stack, on the same device, by the same kind of call.
struct Site {
    /// How the memory was got.
    pub kind: Kind,
    /// Device; none for host memory.
    pub device: Option<u32>,
    /// The library that called.
    pub owner: String,
    /// Indices into `frames`, innermost first; empty where no stack was taken.
    pub stack: Vec<u32>,
    /// Bytes live, as requested.
    pub live_bytes: u64,
    /// Blocks live.
    pub live_blocks: u64,
    /// Most bytes at once.
    pub peak_bytes: u64,
    /// Bytes ever allocated.
    pub total_bytes: u64,
    /// Blocks ever allocated.
    pub total_blocks: u64,
    /// Sizes of the live blocks, most bytes first; at most eight.
    pub live_sizes: Vec<SizeCount>,
}

/// Blocks of one size.
#[derive(Copy, Eq)]
struct SizeCount {
    /// Size as requested.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// One frame of a stack.
#[derive(Eq)]
struct Frame {
    /// File name of the library or program.
    pub module: String,
    /// Offset of the return address in it, `0x...`.
    pub offset: String,
    /// Symbol as the linker knows it, not demangled.
    pub symbol: Option<String>,
}

/// Something that happened.
struct Event {
    /// What.
    pub kind: EventKind,
    /// When, in nanoseconds after the first CUDA call.
    pub at_ns: u64,
    /// Device, where it is about one.
    pub device: Option<u32>,
    /// Address, `0x...`, where it is about one.
    pub address: Option<String>,
    /// What was asked for.
    pub requested_bytes: Option<u64>,
    /// The state at that moment, for an out-of-memory.
    pub state: Option<EventState>,
    /// Sites that held most at that moment, for an out-of-memory; at most eight.
    pub holders: Vec<Holder>,
    /// Stack of the call, as indices into `frames`.
    pub stack: Vec<u32>,
    /// For a wrong free: stack of the allocation, and of the free before.
    pub allocated_at: Vec<u32>,
    /// See `allocated_at`.
    pub freed_at: Vec<u32>,
    /// One sentence.
    pub text: String,
}

/// A site that held memory at the moment of an event.
struct Holder {
    /// Index into `sites`.
    pub site: u32,
    /// Bytes live at that moment.
    pub bytes: u64,
    /// Blocks live at that moment.
    pub blocks: u64,
}

/// A remark, once for each kind.
struct Note {
    /// Short name, for programs.
    pub code: String,
    /// One sentence with the remedy, for people.
    pub text: String,
    /// How often it came up.
    pub count: u64,
}

/// What was cut from the lists.
#[derive(Copy, Eq, Default)]
struct Truncated {
    /// Sites that hold least.
    pub sites: u64,
    /// Smallest segments.
    pub segments: u64,
    /// Latest events.
    pub events: u64,
    /// Allocations whose site did not fit into the table; they count in the site without a stack.
    pub site_table_full: u64,
    /// Bytes live at exit at sites that were cut: `leaks` does not have them.
    #[serde(default)]
    pub leak_bytes: u64,
}
}
