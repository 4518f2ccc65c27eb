//! What comes from outside: the configuration, recorded traces, reports.

use std::io::Write;
use std::path::Path;

use cenote::conf::Settings;
use cenote::pool::engine::Rules;
use cenote::replay::{Event, Setup, Trace, replay};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::Value;

/// `CENOTE_CONF`: what is understood means the same again, and what is not is named once.
pub fn conf(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (settings, problems) = cenote::conf::parse(&text);
    let parts = text.split(',').filter(|part| !part.trim().is_empty()).count();
    assert!(problems.len() <= parts, "{problems:?}");
    let (again, _) = cenote::conf::parse(&format!("{text},{text}"));
    assert_eq!(settings, again, "said twice it means something else");
    if let Some(bytes) = cenote::conf::parse_bytes(&text) {
        assert_eq!(cenote::conf::parse_bytes(&bytes.to_string()), Some(bytes));
    }
}

/// Larger traces are not replayed: the time would go there.
const LONGEST: usize = 2000;
const LARGEST: u64 = 64 << 30;

/// A trace, as the file has it, or the events that are packed in it; what can be read is replayed.
pub fn trace(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let path = Path::new("made-up.trz");
    let parsed = match first % 4 {
        0 => Trace::parse(rest, path),
        3 => Trace::parse(packed(&events(rest), false).as_slice(), path),
        kind => Trace::parse(packed(rest, kind != 1).as_slice(), path),
    };
    let Ok(trace) = parsed else { return };
    let allocated = trace.events.iter().filter(|event| matches!(event, Event::Allocate { .. }));
    assert_eq!(allocated.count(), trace.blocks as usize);
    assert!(trace.peak_after <= trace.events.len());
    if trace.events.len() > LONGEST || trace.peak_live > LARGEST {
        return;
    }
    let limit = (first & 4 != 0).then_some(trace.peak_live + trace.peak_live / 16);
    let slack = f64::from(first >> 4) / 64.0;
    let setup = Setup { limit, slack, rules: Rules::of(&Settings::default()), check: true };
    let outcome = replay(&trace, &setup).expect("the engine is sound");
    assert!(limit.is_some() || outcome.failed_at.is_none(), "refused: {outcome:?}");
    assert!(limit.is_none_or(|limit| outcome.peak_reserved <= limit), "{outcome:?}");
}

/// Events that are mostly right, four bytes each, and the header for them.
fn events(data: &[u8]) -> Vec<u8> {
    let chunks = data.chunks_exact(4);
    let mut file = [b"GTR1".as_slice(), &(chunks.len() as u32).to_le_bytes()].concat();
    let mut put = |mut number: u64| {
        while number >= 0x80 {
            file.push(number as u8 | 0x80);
            number >>= 7;
        }
        file.push(number as u8);
    };
    let mut blocks = 0;
    for chunk in chunks {
        let [kind, which, size, more] = [chunk[0], chunk[1], chunk[2], chunk[3]].map(u64::from);
        put([0, 0, 1, 2, 1, 2, 0, 3][kind as usize % 8]);
        if matches!(kind % 8, 0 | 1 | 6) {
            blocks += u64::from(which > 0);
            put(blocks);
            put(if size == 255 { u64::MAX - more } else { size << (more % 40) });
        } else {
            put(which % (blocks + 1));
        }
        put(more % 3);
        put(0);
    }
    file
}

/// Data as a trace file has it, with the header that it needs if so wished.
fn packed(data: &[u8], with_header: bool) -> Vec<u8> {
    let mut file = ZlibEncoder::new(Vec::new(), Compression::fast());
    let mut put = |part: &[u8]| file.write_all(part).expect("memory");
    if with_header {
        let Some((count, rest)) = data.split_first() else { return Vec::new() };
        put(b"GTR1");
        put(&u32::from(*count).to_le_bytes());
        put(rest);
    } else {
        put(data);
    }
    file.finish().expect("memory")
}

/// A report, as the file has it, or one that was good before values of it were changed.
pub fn report(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 3 {
        // So does what begins with a brace.
        0 => read(data),
        kind => {
            let good: &[u8] = match kind {
                1 => include_bytes!("../../tests/fixtures/train.json"),
                _ => include_bytes!("../../tests/fixtures/recovered.json"),
            };
            let mut value = serde_json::from_slice(good).expect("a report");
            rest.chunks_exact(4).for_each(|change| spoil(&mut value, change));
            read(&serde_json::to_vec(&value).expect("plain JSON"));
        }
    }
}

fn read(text: &[u8]) {
    let path = Path::new("made-up.json");
    match cenote::report::parse(text, path) {
        Ok(report) => {
            let written = serde_json::to_vec(&report).expect("a report can be written");
            let again = cenote::report::parse(&written, path);
            assert_eq!(again.expect("what was written can be read"), report);
        }
        Err(why) => assert!(why.to_string().contains("made-up.json"), "{why}"),
    }
}

/// Changes one value: the first two bytes say which, the others what to.
fn spoil(value: &mut Value, change: &[u8]) {
    let (mut at, mut which) = (value, usize::from(change[0]) << 8 | usize::from(change[1]));
    loop {
        let count = match at {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        if count == 0 || which % 7 == 6 {
            break;
        }
        let nth = which / 7 % count;
        which = which / 7 / count + 1;
        at = match at {
            Value::Array(list) => &mut list[nth],
            Value::Object(map) => map.values_mut().nth(nth).expect("counted"),
            _ => break,
        };
    }
    *at = match change[2] % 10 {
        0 => Value::Null,
        1 => Value::from(u64::MAX),
        2 => Value::from(i64::MIN),
        3 => Value::from(f64::from(change[3]) * 1e300),
        4 => Value::from(change[3]),
        5 => Value::from(String::from_utf8_lossy(&[change[3]; 3])),
        6 => Value::from("0x".to_owned() + &"f".repeat(usize::from(change[3] % 20))),
        7 => Value::Array(vec![Value::from(change[3]); usize::from(change[3] % 4)]),
        8 => Value::Bool(change[3] % 2 == 0),
        _ => Value::Object(serde_json::Map::new()),
    };
}
