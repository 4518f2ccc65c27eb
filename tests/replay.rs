//! `cenote replay`: recorded jobs through the engine on the simulated card, traces that lie, and the verb itself.
//!
//! The traces are beside the repository, in `../shared/traces`; where they are not, the tests that need them pass by.

mod cli;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use cenote::conf::parse;
use cenote::pool::engine::Rules;
use cenote::replay::{Event, Outcome, Setup, Trace, min_cap_ratio, replay};
use cli::{cenote, flat, run};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use tempfile::TempDir;

/// A recorded job: peak of live bytes, bound of reserved over live, and the smallest limit that it fits.
struct Job {
    name: &'static str,
    peak_live: u64,
    ratio: f64,
    min_cap: f64,
}

/// What the promise allows, whichever is larger.
const RATIO: f64 = 1.02;
const OR_BYTES: u64 = 32 << 20;
/// Nothing may need a larger card than it did, up to the step of the search.
const STEP: f64 = 0.001;

const JOBS: [Job; 9] = [
    Job { name: "bert_large", peak_live: 15_509_875_652, ratio: RATIO, min_cap: 1.0027 },
    Job { name: "gnn", peak_live: 5_402_553_348, ratio: RATIO, min_cap: 1.0019 },
    Job { name: "gpt2_medium", peak_live: 21_722_955_320, ratio: RATIO, min_cap: 1.0079 },
    Job { name: "graph_leak", peak_live: 404_000_000, ratio: RATIO, min_cap: 1.0019 },
    // Beyond the promise as yet: it holds 1.0231.
    Job { name: "kv_generate", peak_live: 2_156_304_784, ratio: 1.03, min_cap: 1.0076 },
    Job { name: "llama_full_varlen", peak_live: 17_099_838_248, ratio: RATIO, min_cap: 1.0055 },
    Job { name: "resnet50", peak_live: 6_057_040_912, ratio: RATIO, min_cap: 1.0027 },
    Job { name: "resnet50_multires", peak_live: 6_247_029_392, ratio: RATIO, min_cap: 1.0018 },
    Job { name: "streams_prefetch", peak_live: 1_847_510_903, ratio: RATIO, min_cap: 1.0069 },
];

const SETUP: Setup = Setup { limit: None, slack: 0.018, rules: Rules::NONE, check: false };

fn job(name: &str) -> &'static Job {
    JOBS.iter().find(|job| job.name == name).unwrap()
}

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    folder.join(name).with_extension("trz")
}

/// A recorded job, where there is one.
fn recorded(name: &str) -> Option<Trace> {
    path(name).exists().then(|| Trace::read(&path(name)).unwrap())
}

/// What the engine promises of a job.
fn keeps_its_promise(name: &str, setup: Setup) -> Option<Outcome> {
    let job = job(name);
    let trace = recorded(name)?;
    assert_eq!(trace.peak_live, job.peak_live);
    let outcome = replay(&trace, &setup).unwrap();
    assert_eq!((outcome.failed_at, outcome.events), (None, trace.events.len() as u64));
    let most = ((job.peak_live as f64 * job.ratio) as u64).max(job.peak_live + OR_BYTES);
    assert!(outcome.peak_reserved <= most, "{name}: {} over {most}", outcome.peak_reserved);
    Some(outcome)
}

/// Whether it fits where it did. The search itself takes ten replays, so it is done where they are short.
fn fits_as_before(name: &str) {
    let Some(trace) = recorded(name) else { return };
    let limit = (trace.peak_live as f64 * (job(name).min_cap + STEP)) as u64;
    let outcome = replay(&trace, &Setup { limit: Some(limit), ..SETUP }).unwrap();
    assert_eq!(outcome.failed_at, None, "{name}");
    assert!(outcome.peak_reserved <= limit);
}

macro_rules! jobs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            keeps_its_promise(stringify!($name), SETUP);
            fits_as_before(stringify!($name));
        })*
    };
}

mod of_jobs {
    use super::*;

    jobs! {
        bert_large gnn gpt2_medium graph_leak kv_generate llama_full_varlen resnet50 resnet50_multires streams_prefetch
    }
}

#[test]
fn no_live_block_shares_memory_with_another() {
    for name in ["gnn", "streams_prefetch", "resnet50_multires"] {
        keeps_its_promise(name, Setup { check: true, ..SETUP });
        let Some(trace) = recorded(name) else { continue };
        let limit = Some((trace.peak_live as f64 * (job(name).min_cap + STEP)) as u64);
        replay(&trace, &Setup { limit, check: true, ..SETUP }).unwrap();
    }
}

/// PyTorch holds up to 15 times the peak of live bytes with these, and the engine must not.
#[test]
fn a_split_limit_does_not_make_memory_explode() {
    let (settings, _) = parse("garbage_collection_threshold:0.8,max_split_size_mb:128");
    for job in &JOBS {
        let Some(trace) = recorded(job.name) else { continue };
        let outcome = replay(&trace, &Setup::of(&settings, &trace)).unwrap();
        assert_eq!(outcome.failed_at, None, "{}", job.name);
        assert!(outcome.ratio.unwrap() <= 1.05, "{}: {:?}", job.name, outcome.ratio);
    }
}

#[test]
fn a_threshold_gives_back_before_more_is_taken() {
    let Some(trace) = recorded("gnn") else { return };
    let (settings, _) = parse("limit:5.4GiB,garbage_collection_threshold:0.9");
    let setup = Setup { check: true, ..Setup::of(&settings, &trace) };
    let outcome = replay(&trace, &setup).unwrap();
    assert!(outcome.failed_at.is_none() && outcome.collected_bytes > 0, "{outcome:?}");
}

#[test]
fn the_smallest_limit_is_found() {
    for name in ["gnn", "graph_leak", "streams_prefetch"] {
        let Some(trace) = recorded(name) else { continue };
        let found = min_cap_ratio(&trace, &SETUP).unwrap().unwrap();
        assert!((1.0..=job(name).min_cap + STEP).contains(&found), "{name}: {found}");
    }
}

#[test]
fn the_same_calls_give_the_same_numbers() {
    let Some(trace) = recorded("gnn") else { return };
    let numbers = || Outcome { ns_per_event: 0.0, ..replay(&trace, &SETUP).unwrap() };
    assert_eq!(numbers(), numbers());
}

/// The inside of a trace, event by event.
#[derive(Default)]
struct Draft {
    count: u32,
    data: Vec<u8>,
}

impl Draft {
    fn event(mut self, op: u8, numbers: &[u64]) -> Self {
        self.count += 1;
        self.data.push(op);
        for &number in numbers {
            let mut rest = number;
            while rest >= 0x80 {
                self.data.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.data.push(rest as u8);
        }
        self
    }

    fn allocate(self, id: u64, bytes: u64, stream: u64) -> Self {
        self.event(0, &[id, bytes, stream, 5])
    }

    fn free(self, id: u64) -> Self {
        self.event(1, &[id, 0, 1])
    }

    fn completed(self, id: u64) -> Self {
        self.event(2, &[id, 0, 1])
    }

    fn inside(&self, magic: &[u8], count: u32) -> Vec<u8> {
        [magic, &count.to_le_bytes(), &self.data].concat()
    }

    fn file(&self) -> Vec<u8> {
        zlib(&self.inside(b"GTR1", self.count))
    }
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn written(folder: &TempDir, name: &str, file: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, file).unwrap();
    path
}

#[test]
fn a_block_of_no_bytes_is_a_block() {
    let folder = TempDir::new().unwrap();
    let draft = Draft::default().allocate(3, 0, 0).allocate(9, 1000, 1).free(3).completed(3);
    let trace = Trace::read(&written(&folder, "small.trz", &draft.file())).unwrap();
    assert_eq!((trace.name.as_str(), trace.peak_live, trace.blocks), ("small", 1000, 2));
    assert_eq!(trace.events[1], Event::Allocate { block: 1, stream: 1, bytes: 1000 });
    assert_eq!(trace.events[3], Event::Completed { block: 0 });
    let outcome = replay(&trace, &Setup { check: true, ..SETUP }).unwrap();
    assert_eq!((outcome.failed_at, outcome.peak_reserved), (None, 4 << 20));

    let nothing = Trace::read(&written(&folder, "none.trz", &Draft::default().file())).unwrap();
    let outcome = replay(&nothing, &SETUP).unwrap();
    assert_eq!((outcome.events, outcome.ratio, outcome.internal_ratio), (0, None, None));
    assert_eq!(min_cap_ratio(&nothing, &SETUP), Ok(Some(1.0)));
}

#[test]
fn a_block_that_no_card_holds_is_refused() {
    let folder = TempDir::new().unwrap();
    for bytes in [1 << 46, u64::MAX] {
        let file = Draft::default().allocate(0, 512, 0).allocate(1, bytes - 512, 0).file();
        let trace = Trace::read(&written(&folder, "huge.trz", &file)).unwrap();
        let failed = replay(&trace, &SETUP).unwrap().failed_at.unwrap();
        assert_eq!((failed.event, failed.bytes), (2, bytes - 512));
        assert_eq!(min_cap_ratio(&trace, &SETUP), Ok(None));
    }
}

#[test]
fn traces_that_lie_are_named_with_the_event() {
    let block = || Draft::default().allocate(7, 512, 0);
    let cut = |file: Vec<u8>, by| file[..file.len() - by].to_vec();
    let with_count = |count| zlib(&block().free(7).inside(b"GTR1", count));
    // Long enough that its first part comes out before the checksum is seen.
    let mut garbled =
        (0..9000).fold(Draft::default(), |draft, id| draft.allocate(id, id, 0)).file();
    let last = garbled.len() - 1;
    garbled[last] ^= 1;
    let cases: [(&str, Vec<u8>); 23] = [
        ("it is no zlib data, or damaged", b"GTR1 as plain text, and long enough".to_vec()),
        ("it ends in its header", Vec::new()),
        ("it ends in its header", zlib(b"GTR1\x01")),
        ("it does not begin with GTR1", zlib(b"{\"schema\":1}")),
        ("has the format GTR2, and this is cenote", zlib(&block().inside(b"GTR2", 1))),
        (
            "event 3: the file ends before it, and its header says 4294967294",
            with_count(u32::MAX - 1),
        ),
        ("event 2: there is more data after the 1 events", with_count(1)),
        ("event 2: there is more data", [block().file(), b"more".to_vec()].concat()),
        ("event 2: the data is damaged (the file is cut off)", cut(block().file(), 2)),
        (": the data is damaged (", garbled),
        (
            "event 1: the data is damaged (the file is cut off)",
            cut(zlib(&block().inside(b"GTR1", 1)), 9),
        ),
        ("event 2: there is no operation 4", block().event(4, &[7, 0, 0]).file()),
        ("event 2: a mark's name has 65537 bytes", block().event(3, &[65_537]).file()),
        ("event 2: block 7 is allocated twice", block().allocate(7, 1, 0).file()),
        ("event 2: block 6 is allocated twice, or out of order", block().allocate(6, 1, 0).file()),
        ("event 2: block 8 is freed and was never allocated", block().free(8).file()),
        ("event 2: block 3 is freed again, or was never", block().free(3).file()),
        ("event 3: block 7 is freed twice", block().free(7).free(7).file()),
        ("event 4: block 7 is freed again", block().free(7).completed(7).free(7).file()),
        ("event 2: block 7 is done with before it is freed", block().completed(7).file()),
        ("event 2: stream 2 comes when only 1 were seen", block().allocate(8, 1, 2).file()),
        ("event 2: with the 18446744073709551615 bytes", block().allocate(8, u64::MAX, 0).file()),
        ("event 2: a number has more than 64 bits", {
            let mut draft = block();
            draft.count += 1;
            draft.data.extend([0].into_iter().chain([0xff; 12]));
            draft.file()
        }),
    ];
    let folder = TempDir::new().unwrap();
    for (part, file) in cases {
        let path = written(&folder, "job.trz", &file);
        let error = Trace::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{part:?} is not in {error:?}");
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        assert!(error.contains("again") || error.contains("name a") || error.contains("install"));
    }
}

/// Two blocks of 3 MiB on one stream; the second one goes where the first was.
fn two_blocks(folder: &TempDir) -> PathBuf {
    let draft = Draft::default().allocate(0, 3 << 20, 0).free(0).completed(0);
    written(folder, "two.trz", &draft.allocate(1, 3 << 20, 0).file())
}

#[test]
fn the_verb_prints_json() {
    let folder = TempDir::new().unwrap();
    let path = two_blocks(&folder);
    let (status, text, error) = run(cenote().args(["replay", "--json"]).arg(&path).arg(&path));
    assert_eq!((status, error.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], "cenote.replay/1");
    assert_eq!(json["traces"].as_array().unwrap().len(), 2);
    let trace = &json["traces"][0];
    for (name, value) in [
        ("trace", "two".into()),
        ("events", 4.into()),
        ("peak_live_bytes", (3 << 20).into()),
        ("peak_reserved_bytes", (4 << 20).into()),
        ("pages_moved", 0.into()),
        ("misses", 1.into()),
        ("slack", 0.018.into()),
        ("limit_bytes", serde_json::Value::Null),
        ("failed_at", serde_json::Value::Null),
        ("min_cap_ratio", 1.334.into()),
    ] {
        assert_eq!(trace[name], value, "{name}");
    }
    assert_eq!(trace["fragmentation"]["free_bytes"], 1 << 20);
    assert!(trace["driver_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_verb_prints_a_table() {
    let folder = TempDir::new().unwrap();
    let path = two_blocks(&folder);
    let (status, text, error) = run(cenote().args(["replay", "--check"]).arg(&path));
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(flat(&text).contains("two 3.00 MiB 4.00 MiB 1.3333"), "{text}");
    assert!(text.contains("min cap") && text.contains("1.334"), "{text}");
    let (_, text, _) = run(cenote().args(["replay", "--no-min-cap"]).arg(&path));
    assert!(!text.contains("min cap"), "{text}");
}

#[test]
fn a_trace_that_does_not_fit_is_a_failure() {
    let folder = TempDir::new().unwrap();
    let path = two_blocks(&folder);
    let refused = "two: out of memory at event 1: 3.00 MiB asked, limit 2.00 MiB";
    for options in [&["--limit", "2MiB"][..], &["--conf", "limit:2MiB"]] {
        let (status, text, _) = run(cenote().arg("replay").args(options).arg(&path));
        assert!(status == 1 && text.contains(refused), "{options:?}: {text}");
    }
    let fits = ["replay", "--limit-ratio", "1.4", "-c", "limit:2MiB", "-c", "slack:0"];
    assert_eq!(run(cenote().args(fits).arg(&path)).0, 0, "an option wins over a setting");
}

#[test]
fn what_is_wrong_is_said_and_hides_nothing_else() {
    let folder = TempDir::new().unwrap();
    let path = two_blocks(&folder);
    let foreign = written(&folder, "foreign.trz", b"no trace");
    let newer = written(&folder, "newer.trz", &zlib(b"GTR9\0\0\0\0"));
    let both = run(cenote().arg("replay").arg(&foreign).arg(&path));
    assert!(both.0 == 121 && both.1.contains("two") && both.2.contains("foreign.trz"), "{both:?}");
    assert_eq!(run(cenote().arg("replay").arg(&newer)).0, 122);
    let (status, _, error) = run(cenote().args(["replay", "/nowhere.trz"]));
    assert!(status == 121 && error.contains("can't read /nowhere.trz: No such file"), "{error}");
    let (status, _, error) = run(cenote().arg("replay").arg(folder.path()));
    assert!(status == 121 && error.contains("is a directory"), "{error}");

    let (status, _, error) = run(cenote().args(["replay", "-c", "slak:0,retain:1G"]).arg(&path));
    assert!(status == 0 && error.contains("did you mean \"slack\""), "{error}");
    assert!(error.contains("a replay takes limit, "), "{error}");
    let strict = ["replay", "-c", "slack:2", "-c", "strict:true"];
    let (status, _, error) = run(cenote().args(strict).arg(&path));
    assert!(status == 1 && error.contains("nothing was replayed"), "{error}");
    for wrong in
        [&["--limit", "2", "--limit-ratio", "2"][..], &["--limit", "x"], &["--limit-ratio", "0"]]
    {
        assert_eq!(run(cenote().arg("replay").args(wrong).arg(&path)).0, 2, "{wrong:?}");
    }
}
