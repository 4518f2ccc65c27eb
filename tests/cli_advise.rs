//! `cenote advise`: what pays for a trace, and what does not.

mod cli;

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use cli::{cenote, flat, run};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::Value;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// Microseconds between two events.
const PAUSE: u64 = 1_000_000;

/// A trace of blocks, each with its stream and bytes, that are freed before the next one.
fn trace(folder: &TempDir, name: &str, blocks: impl IntoIterator<Item = (u64, u64)>) -> PathBuf {
    let (mut count, mut data) = (0u32, Vec::new());
    let mut event = |op: u8, numbers: &[u64]| {
        count += 1;
        data.push(op);
        for &number in numbers {
            let mut rest = number;
            while rest >= 0x80 {
                data.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            data.push(rest as u8);
        }
    };
    for (id, (stream, bytes)) in blocks.into_iter().enumerate() {
        event(0, &[id as u64, bytes, stream, PAUSE]);
        event(1, &[id as u64, stream, PAUSE]);
    }
    let mut file = ZlibEncoder::new(Vec::new(), Compression::fast());
    file.write_all(&[b"GTR1", &count.to_le_bytes()[..], &data].concat()).unwrap();
    let path = folder.path().join(name);
    fs::write(&path, file.finish().unwrap()).unwrap();
    path
}

/// Two streams that use the same memory in turn.
fn in_turn(folder: &TempDir) -> PathBuf {
    trace(folder, "turns.trz", (0..4).map(|step| (step % 2, 400 * MIB)))
}

#[test]
fn what_saves_memory_is_advised() {
    let folder = TempDir::new().unwrap();
    let path = in_turn(&folder);
    let (status, text, error) = run(cenote().args(["advise", "-c", "slack:1"]).arg(&path));
    assert_eq!((status, error.as_str()), (0, ""));
    let text = flat(&text);
    assert!(text.contains("turns (as it is) 800.00 MiB"), "{text}");
    assert!(text.contains("slack:0 400.00 MiB 400.00 MiB 400.00 MiB 0 B"), "{text}");
}

#[test]
fn nothing_is_advised_where_nothing_pays() {
    let folder = TempDir::new().unwrap();
    let path = trace(&folder, "loop.trz", (0..50).map(|_| (0, 64 * MIB)));
    let (status, text, _) = run(cenote().arg("advise").arg(&path));
    assert!(status == 0 && text.contains("nothing pays, after"), "{text}");
    assert!(text.contains("replays: loop"), "{text}");
    let json = json(&["-c", "slack:0"], &path).1;
    assert_eq!(json["traces"][0]["advice"].as_array().unwrap().len(), 0, "{json:#}");
}

fn json(options: &[&str], path: &PathBuf) -> (i32, Value) {
    let (status, text, _) = run(cenote().args(["advise", "--json"]).args(options).arg(path));
    (status, serde_json::from_str(&text).unwrap())
}

#[test]
fn the_verb_prints_json() {
    let folder = TempDir::new().unwrap();
    let (status, json) = json(&["-c", "slack:1"], &in_turn(&folder));
    assert_eq!(
        (status, &json["schema"], &json["conf"]),
        (0, &"cenote.advice/1".into(), &"slack:1".into())
    );
    let trace = &json["traces"][0];
    for (name, value) in
        [("trace", "turns".into()), ("events", 8.into()), ("duration_ms", 8_000.0.into())]
    {
        let value: Value = value;
        assert_eq!(trace[name], value, "{name}");
    }
    let (now, memory) = (&trace["now"], &trace["advice"][0]);
    assert_eq!((&memory["goal"], &memory["fits"]), (&"memory".into(), &true.into()));
    assert_eq!(now["peak_reserved_bytes"], 800 * MIB);
    assert_eq!(memory["peak_reserved_bytes"], 400 * MIB);
    assert_eq!(memory["smallest_card_bytes"], 400 * MIB);
    assert!(memory["driver_ms"].as_f64() > Some(0.0));
    let card =
        trace["advice"].as_array().unwrap().iter().find(|one| one["goal"] == "card").unwrap();
    assert!(card["conf"].as_str().unwrap().starts_with("limit:400MiB"), "{card:#}");
}

#[test]
fn what_does_not_fit_is_said_and_what_is_wrong_hides_nothing() {
    let folder = TempDir::new().unwrap();
    let path = in_turn(&folder);
    let (status, text, _) = run(cenote().args(["advise", "-c", "limit:300MiB"]).arg(&path));
    assert!(status == 1 && text.contains("does not fit"), "{text}");
    let both = run(cenote().args(["advise", "/nowhere.trz"]).arg(&path));
    assert!(
        both.0 == 121 && both.1.contains("turns") && both.2.contains("/nowhere.trz"),
        "{both:?}"
    );
    let (status, _, error) = run(cenote().args(["advise", "-c", "slak:0"]).arg(&path));
    assert!(status == 0 && error.contains("did you mean \"slack\""), "{error}");
    assert_eq!(run(cenote().arg("advise")).0, 2);
}
