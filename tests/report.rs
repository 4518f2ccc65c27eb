//! Reports from hand-made books: the sums, the classes, the caps, the schema, and where a report is put.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use cenote::ledger::{Block, Books, EventKind, EventState, Happening, Kind, SiteId, Sites};
use cenote::page::{self, PageFile, PageLayout};
use cenote::report::{
    Coverage, Doors, Leak, LeakClass, Process, ReadError, Reason, Report, SCHEMA, Segment,
    Snapshot, build, read, write,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// Books, and what happened to blocks: a small stand-in for the preload.
struct Job {
    page: &'static PageLayout,
    live: Vec<(u64, Block)>,
    duration_ns: u64,
    reason: Reason,
    environment: BTreeMap<String, String>,
    events: Vec<Happening>,
    segments: Vec<(u32, Segment)>,
    freed_during_exit: Vec<(SiteId, Block)>,
}

impl Job {
    fn new(duration_ns: u64) -> Self {
        let page = PageFile::anonymous().unwrap().page;
        page.books.devices[0].used.store(1, Relaxed);
        Job {
            page,
            live: Vec::new(),
            duration_ns,
            reason: Reason::Exit,
            environment: BTreeMap::new(),
            events: Vec::new(),
            segments: Vec::new(),
            freed_during_exit: Vec::new(),
        }
    }

    fn books(&self) -> &'static Books {
        &self.page.books
    }

    /// A module with a megabyte of addresses; returns the first.
    fn module(&self, at: u64, path: &str) -> u64 {
        let base = at << 32;
        self.books().add_module(base, base + MIB, path.as_bytes());
        base
    }

    /// Allocates a block that stays live.
    fn keep(&mut self, stack: &[u64], bytes: u64, at_ms: u32) -> SiteId {
        let site = Sites::of(self.books()).intern(stack, Kind::Pooled, 0);
        Sites::of(self.books()).add(site, bytes);
        self.books().add(Kind::Pooled, 0, bytes);
        let block = Block { bytes, kind: Kind::Pooled, device: 0, home: 0, site, at_ms };
        self.live.push((0x7f00_0000_0000 + self.live.len() as u64 * 512, block));
        site
    }

    /// Allocates a block and frees it.
    fn pass(&mut self, stack: &[u64], bytes: u64) {
        let site = Sites::of(self.books()).intern(stack, Kind::Pooled, 0);
        Sites::of(self.books()).add(site, bytes);
        Sites::of(self.books()).sub(site, bytes);
    }

    fn report(&self) -> Report {
        build(&Snapshot {
            books: self.books(),
            reason: self.reason,
            complete: true,
            process: Process {
                pid: 4711,
                parent_pid: 1,
                executable: "/home/me/train".to_owned(),
                command: vec!["./train".to_owned()],
                host: "node1".to_owned(),
                started_unix_ns: 0,
                duration_ns: self.duration_ns,
                rank: None,
                environment: self.environment.clone(),
            },
            configuration: BTreeMap::new(),
            coverage: coverage(),
            events: (self.events.clone(), 0),
            notes: Vec::new(),
            live: Some(self.live.clone()),
            freed_during_exit: self.freed_during_exit.clone(),
            segments: self.segments.clone(),
            devices: vec![(0, "NVIDIA H200".to_owned(), "GPU-1234".to_owned())],
        })
    }

    fn leaks(&self) -> Vec<Leak> {
        self.report().devices[0].leaks.clone()
    }

    fn classes(&self) -> Vec<(LeakClass, u64)> {
        self.leaks().iter().map(|leak| (leak.class, leak.blocks)).collect()
    }
}

fn coverage() -> Coverage {
    Coverage {
        mode: "pool".to_owned(),
        driver: None,
        driver_version: Some(13000),
        doors: Doors::default(),
        calls: BTreeMap::from([("cuMemAlloc_v2".to_owned(), 1)]),
        missing: Vec::new(),
        other_preloads: Vec::new(),
        order: "context_event".to_owned(),
    }
}

#[test]
fn the_memory_of_a_device_adds_up() {
    let mut job = Job::new(SECOND);
    job.keep(&[], 3 * MIB, 0);
    let book = job.books().device(0);
    book.sampled_unix_ns.store(7, Relaxed);
    book.driver_used.set(100 * MIB);
    book.tracked_at_sample.store(60 * MIB, Relaxed);
    book.context_bytes.store(50 * MIB, Relaxed);
    book.modules_bytes.store(4 * MIB, Relaxed);
    let report = job.report();
    let memory = &report.devices[0].memory;
    let sum = (memory.tracked_bytes + memory.context_bytes) as i64 + memory.unaccounted_bytes;
    assert_eq!(sum, memory.driver_used_bytes as i64);
    assert_eq!(memory.unaccounted_bytes, -(10 * MIB as i64), "less than nothing is an answer");
    assert_eq!(memory.unaccounted_known["modules"], 4 * MIB);
    assert_eq!(memory.by_kind[&Kind::Pooled].bytes, 3 * MIB);
    assert_eq!(report.devices.len(), 1, "only devices that were used");
}

#[test]
fn without_a_sample_the_equation_is_all_zero() {
    let job = Job::new(SECOND);
    job.books().device(0).context_bytes.store(50 * MIB, Relaxed);
    let memory = &job.report().devices[0].memory;
    assert_eq!(
        (memory.driver_used_bytes, memory.context_bytes, memory.unaccounted_bytes),
        (0, 0, 0)
    );
}

#[test]
fn the_owner_is_the_first_library_that_is_no_plumbing() {
    let mut job = Job::new(SECOND);
    let cenote = job.module(1, "/opt/libcenote.so");
    let runtime = job.module(2, "/opt/libcudart.so.13");
    let nccl = job.module(3, "/opt/libnccl.so.2");
    let torch = job.module(4, "/opt/libtorch_cuda.so");
    job.keep(&[cenote + 9, runtime + 9, nccl + 9, torch + 9], 5 * MIB, 0);
    job.keep(&[cenote + 9, runtime + 9, torch + 9], 2 * MIB, 0);
    job.keep(&[cenote + 9, 0x1234], MIB, 0);
    job.keep(&[], MIB, 0);
    let report = job.report();
    let owners = &report.devices[0].memory.by_owner;
    let owners: Vec<_> = owners.iter().map(|owner| (owner.owner.as_str(), owner.bytes)).collect();
    assert_eq!(owners, [("nccl", 5 * MIB), ("torch", 2 * MIB), ("unknown", 2 * MIB)]);
    let first = &report.sites[0];
    assert_eq!(report.frames[first.stack[0] as usize].module, "libcenote.so");
    assert_eq!(report.frames[first.stack[0] as usize].offset, "0x9");
    assert_eq!(report.frames.len(), 5, "each address once");
}

#[test]
fn sites_are_capped_and_owners_are_not() {
    let mut job = Job::new(SECOND);
    let program = job.module(1, "/home/me/train");
    for n in 0..300 {
        job.keep(&[program + n + 1], (n + 1) * 512, 0);
    }
    let smallest = job.live[0].1.site;
    let mut event = Happening::new(EventKind::OutOfMemory, 5, "refused".to_owned());
    event.holders = vec![(smallest, 512, 1)];
    job.events.push(event);
    let report = job.report();
    assert_eq!(report.sites.len(), 200);
    assert_eq!(report.truncated.sites, 100);
    assert!(report.sites.is_sorted_by(|a, b| a.live_bytes >= b.live_bytes));
    let owner = &report.devices[0].memory.by_owner[0];
    assert_eq!(
        (owner.owner.as_str(), owner.blocks, owner.bytes),
        ("program", 300, 512 * 300 * 301 / 2)
    );
    let holder = &report.events[0].holders[0];
    assert_eq!(report.sites[holder.site as usize].live_bytes, 512, "sites of events are not cut");
    let told: u64 = report.devices[0].leaks.iter().map(|leak| leak.bytes).sum();
    assert_eq!(told + report.truncated.leak_bytes, owner.bytes);
}

#[test]
fn segments_are_capped_after_the_sums() {
    let mut job = Job::new(SECOND);
    for n in 0..5000u64 {
        let address = format!("{:#x}", n << 21);
        let map = if n == 0 { "f" } else { "L" }.to_owned();
        let segment = Segment {
            address,
            bytes: if n == 0 { 512 } else { 2 * MIB },
            live_bytes: 0,
            waiting_bytes: 0,
            slot_bytes: None,
            exported: false,
            map,
        };
        job.segments.push((0, segment));
    }
    let report = job.report();
    assert_eq!(report.devices[0].segments.len(), 4096);
    assert_eq!(report.truncated.segments, 904);
    assert_eq!(report.devices[0].fragmentation.largest_free_bytes, 512);
}

#[test]
fn one_leaked_block_of_a_tiny_program_is_a_leak() {
    let mut job = Job::new(10_000_000);
    job.keep(&[], MIB, 0);
    assert_eq!(job.classes(), [(LeakClass::NeverFreed, 1)]);
}

#[test]
fn a_loop_that_keeps_what_it_allocates_grows_even_in_a_tiny_program() {
    let mut job = Job::new(10_000_000);
    for _ in 0..8 {
        job.keep(&[], MIB, 0);
    }
    assert_eq!(job.classes(), [(LeakClass::Growing, 8)]);
}

#[test]
fn a_graph_that_is_kept_each_step_grows() {
    let mut job = Job::new(80 * SECOND);
    let program = job.module(1, "/home/me/train");
    job.keep(&[program + 1], 500 * MIB, 100);
    for step in 0..40 {
        job.keep(&[program + 2], MIB, step * 2000);
        job.pass(&[program + 3], 64 * MIB);
    }
    job.keep(&[program + 4], 7 * MIB, 50_000);
    assert_eq!(
        job.classes(),
        [(LeakClass::Growing, 40), (LeakClass::NeverFreed, 1), (LeakClass::StartUp, 1)]
    );
    let growing = &job.leaks()[0];
    assert_eq!((growing.parts_of_run, growing.first_ns, growing.last_ns), (8, 0, 78 * SECOND));
}

#[test]
fn early_and_late_blocks_of_a_site_are_told_apart() {
    let mut job = Job::new(80 * SECOND);
    job.keep(&[], 5 * MIB, 0);
    job.keep(&[], 2 * MIB, 60_000);
    assert_eq!(job.classes(), [(LeakClass::NeverFreed, 1), (LeakClass::StartUp, 1)]);
}

#[test]
fn the_cache_of_torch_is_not_a_leak_unless_it_is_off() {
    let mut job = Job::new(80 * SECOND);
    let torch = job.module(1, "/opt/libc10_cuda.so");
    for step in 0..40 {
        job.keep(&[torch + 1], 20 * MIB, step * 2000);
    }
    assert_eq!(job.classes(), [(LeakClass::HeldByCache, 40)]);
    job.environment.insert("PYTORCH_NO_CUDA_MEMORY_CACHING".to_owned(), "1".to_owned());
    assert_eq!(job.classes(), [(LeakClass::Growing, 40)]);
}

#[test]
fn a_workspace_of_a_library_is_not_a_leak_whenever_it_was_taken() {
    let mut job = Job::new(80 * SECOND);
    let cublas = job.module(1, "/opt/libcublas.so.13");
    job.keep(&[cublas + 1], 8_519_680, 60_000);
    assert_eq!(job.classes(), [(LeakClass::StartUp, 1)]);
}

#[test]
fn what_destructors_free_is_a_class_of_its_own() {
    let mut job = Job::new(80 * SECOND);
    let site = job.keep(&[], 5 * MIB, 60_000);
    job.freed_during_exit = job.live.drain(..).map(|(_, block)| (site, block)).collect();
    assert_eq!(job.classes(), [(LeakClass::FreedDuringExit, 1)]);
}

#[test]
fn before_the_end_nothing_is_a_leak() {
    let mut job = Job::new(80 * SECOND);
    job.keep(&[], 5 * MIB, 60_000);
    job.reason = Reason::OutOfMemory;
    assert_eq!(job.leaks(), []);
}

#[test]
fn sizes_of_live_blocks() {
    let mut job = Job::new(SECOND);
    for n in 1..=10 {
        job.keep(&[], n * MIB, 0);
    }
    job.keep(&[], 8 * MIB, 0);
    let sizes = &job.report().sites[0].live_sizes;
    assert_eq!((sizes.len(), sizes[0].bytes, sizes[0].blocks), (8, 8 * MIB, 2));
}

#[test]
fn frames_of_a_real_module_have_names() {
    let mut job = Job::new(SECOND);
    let path = std::env::current_exe().unwrap();
    let path = path.to_str().unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let address =
        |line: &str, at| u64::from_str_radix(line.split([' ', '-']).nth(at).unwrap(), 16).unwrap();
    let own: Vec<_> = maps.lines().filter(|line| line.ends_with(path)).collect();
    job.books().add_module(address(own[0], 0), address(own[own.len() - 1], 1), path.as_bytes());
    job.keep(&[frames_of_a_real_module_have_names as *const () as u64 + 1], MIB, 0);
    let report = job.report();
    let symbol = report.frames[0].symbol.clone().unwrap();
    assert!(symbol.contains("frames_of_a_real_module_have_names"), "{symbol}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    /// Another process may have written anything into a page, and a report comes out all the same.
    #[test]
    fn any_bits_make_a_report(seed: u64, sparse: bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = page::create(folder.path(), 1, 1).unwrap().path.unwrap();
        let mut noise = seed;
        let mut word = || {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            if sparse && noise % 3 != 0 { 0 } else { noise }
        };
        let length = fs::metadata(&path).unwrap().len() as usize;
        let words = std::iter::repeat_with(|| word().to_le_bytes()).take(length / 8 + 1);
        let mut bytes: Vec<u8> = words.flatten().collect();
        bytes.truncate(length);
        bytes[..8].copy_from_slice(&page::MAGIC.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let books = &page::open(&path).unwrap().page.books;
        let mut job = Job::new(seed);
        let site = (seed % 5000) as SiteId;
        let block = Block { bytes: seed, kind: Kind::Async, device: 99, home: 0, site, at_ms: u32::MAX };
        job.live = vec![(0, block), (seed, block)];
        let mut event = Happening::new(EventKind::DoubleFree, seed, String::new());
        event.stack = vec![0, u64::MAX, seed];
        job.events = vec![event];
        let snapshot_of = |reason| {
            build(&Snapshot {
                books,
                reason,
                complete: false,
                process: job.report().process,
                configuration: BTreeMap::new(),
                coverage: coverage(),
                events: (job.events.clone(), 0),
                notes: Vec::new(),
                live: Some(job.live.clone()),
                freed_during_exit: vec![(site, block)],
                segments: Vec::new(),
                devices: Vec::new(),
            })
        };
        for reason in [Reason::Exit, Reason::Recovered] {
            let report = snapshot_of(reason);
            prop_assert!(report.sites.len() <= 200);
            let text = serde_json::to_string(&report).unwrap();
            let read: Report = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.sites.len(), report.sites.len());
        }
    }
}

// --- the schema ---

fn fixtures() -> Vec<(String, serde_json::Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let reports =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let read = |path: std::path::PathBuf| {
        let json = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path.file_name().unwrap().to_string_lossy().into_owned(), json)
    };
    reports
        .map(read)
        .filter(|(_, json): &(_, serde_json::Value)| json["schema"] == SCHEMA)
        .collect()
}

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/report.v1.json");
    let committed: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let derived = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
    assert!(
        committed == derived,
        "it has changed; run: cenote schema > docs/schemas/report.v1.json"
    );
}

#[test]
fn reports_satisfy_the_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(Report)).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let mut job = Job::new(SECOND);
    job.keep(&[7], MIB, 0);
    let mut event = Happening::new(EventKind::OutOfMemory, 5, "refused".to_owned());
    event.state = Some(EventState {
        live_bytes: 1,
        reserved_bytes: 2,
        free_bytes: 1,
        largest_free_bytes: 1,
        driver_free_bytes: 0,
        limit_bytes: None,
    });
    job.events.push(event);
    let made = ("made here".to_owned(), serde_json::to_value(job.report()).unwrap());
    let reports = fixtures();
    assert!(reports.len() >= 3);
    for (name, report) in reports.into_iter().chain([made]) {
        let errors: Vec<_> = schema.iter_errors(&report).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

// --- reading ---

fn read_text(text: &str) -> Result<Report, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    fs::write(&path, text).unwrap();
    read(&path)
}

#[test]
fn a_report_of_a_later_minor_version_reads() {
    let mut json = serde_json::to_value(Job::new(SECOND).report()).unwrap();
    json["weather"] = "fine".into();
    json["devices"][0]["pool"]["colour"] = 7.into();
    assert!(read_text(&json.to_string()).is_ok());
}

#[test]
fn a_report_from_before_a_field_reads() {
    let mut json = serde_json::to_value(Job::new(SECOND).report()).unwrap();
    json["truncated"].as_object_mut().unwrap().remove("leak_bytes");
    assert!(read_text(&json.to_string()).is_ok());
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let message = |text: &str| read_text(text).unwrap_err().to_string();
    assert!(message("").contains("it is empty"));
    assert!(message("hello").contains("is no cenote report"));
    assert!(message("{}").contains("missing field `schema`"));
    assert!(message(r#"{"schema":"other/1"}"#).contains("its schema is \"other/1\""));
    let newer = message(r#"{"schema":"cenote.report/2","cenote_version":"3.1.4"}"#);
    assert!(newer.contains("install cenote 3.1.4, which wrote it"), "{newer}");
    let nameless = message(r#"{"schema":"cenote.report/2"}"#);
    assert!(nameless.ends_with("install the version of cenote that wrote it"), "{nameless}");
    let mut json = serde_json::to_value(Job::new(SECOND).report()).unwrap();
    json["devices"][0]["pool"]["hits"] = "many".into();
    let wrong = message(&json.to_string());
    assert!(wrong.contains("at devices[0].pool.hits: invalid type"), "{wrong}");
}

// --- writing ---

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_nanos() as u64
}

#[test]
fn a_report_is_private_whole_and_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folders/report.json");
    let report = Job::new(SECOND).report();
    assert_eq!(write::write(&report, &path, now(), None).unwrap(), path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(read(&path).unwrap(), report);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft stays");
}

#[test]
fn a_name_that_another_process_of_the_run_took_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let report = Job::new(SECOND).report();
    let started = now();
    let write = |earlier: Option<&Path>| write::write(&report, &path, started, earlier).unwrap();
    assert_eq!(write(None), path);
    assert_eq!(write(None), folder.path().join("report.4711.json"));
    assert_eq!(write(None), folder.path().join("report.4711.1.json"));
    assert_eq!(write(Some(&path)), path, "its own file is rewritten");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_file_of_an_earlier_run_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    fs::write(&path, "old").unwrap();
    let later = now() + SECOND;
    assert_eq!(write::write(&Job::new(SECOND).report(), &path, later, None).unwrap(), path);
    assert!(read(&path).is_ok());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_in_the_way_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = write::write(&Job::new(SECOND).report(), folder.path(), now(), None).unwrap_err();
    assert!(error.to_string().contains("can't write"), "{error}");
}

#[test]
fn the_run_folder_says_when_the_run_began() {
    let name = write::run_folder_prefix(1234) + "Xyz";
    assert_eq!(write::run_started_unix_ns(&Path::new("/tmp").join(name)), Some(1234));
    assert_eq!(write::run_started_unix_ns(Path::new("/tmp/other")), None);
}
