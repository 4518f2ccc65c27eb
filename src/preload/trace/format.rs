//! Events as a GTR1 trace: zlib over `GTR1`, a count, and the events in LEB128 (`docs/commands/replay.md`).
//!
//! The data is stored and not compressed, so that the library carries no compressor. A chunk holds whole events and ends a block of
//! zlib's: what was written before a kill can be read. The count comes first in the file, and is known last: until then it is the
//! largest number, which says "as many as there are"; in the end it is written over, and the checksum is that of the file with it.

use std::collections::HashMap;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Allocate = 0,
    Free = 1,
    /// Another stream uses the block.
    Use = 2,
    /// The address is the number of a name.
    Mark = 3,
}

/// Half a cache line: what a thread writes down is the larger part of the cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// A handle, which is an address of the host: the device and the operation are in its upper bits.
    what: u64,
}

const DEVICE_SHIFT: u32 = 48;
const OP_SHIFT: u32 = 60;
const STREAM: u64 = (1 << DEVICE_SHIFT) - 1;

impl Event {
    #[inline]
    pub(super) fn new(op: Op, address: u64, bytes: u64, stream: u64, device: u32) -> Self {
        let device = u64::from(device & 0xfff);
        let what = stream & STREAM | device << DEVICE_SHIFT | (op as u64) << OP_SHIFT;
        Event { time_ns: 0, address, bytes, what }
    }

    fn op(self) -> Op {
        match self.what >> OP_SHIFT {
            0 => Op::Allocate,
            1 => Op::Free,
            2 => Op::Use,
            _ => Op::Mark,
        }
    }
}

/// As many events as there are.
const OPEN: u32 = u32::MAX;
/// `GTR1` and the count.
const HEADER: usize = 8;
/// Bytes of a block of zlib's that is stored.
const BLOCK: usize = u16::MAX as usize;

/// zlib's checksum.
#[derive(Debug, Clone, Copy)]
struct Adler {
    a: u32,
    b: u32,
}

impl Adler {
    const MODULUS: u32 = 65_521;

    fn add(&mut self, data: &[u8]) {
        // So many bytes leave both sums within 32 bits.
        for part in data.chunks(5552) {
            for &byte in part {
                self.a += u32::from(byte);
                self.b += self.a;
            }
            (self.a, self.b) = (self.a % Self::MODULUS, self.b % Self::MODULUS);
        }
    }

    /// The byte at `place` of `length` is another one.
    fn replace(&mut self, place: u64, length: u64, old: u8, new: u8) {
        let modulus = u64::from(Self::MODULUS);
        let more = (u64::from(new) + modulus - u64::from(old)) % modulus;
        self.a = ((u64::from(self.a) + more) % modulus) as u32;
        self.b = ((u64::from(self.b) + (length - place) % modulus * more) % modulus) as u32;
    }
}

#[derive(Debug)]
struct Live {
    id: u64,
    stream: u64,
    /// Other streams use it: when it is done with nobody tells us.
    is_shared: bool,
}

/// From events to the bytes of the file.
#[derive(Debug)]
pub(super) struct Encoder {
    adler: Adler,
    /// Bytes before zlib's wrapping.
    length: u64,
    events: u64,
    ids: u64,
    last_us: Option<u64>,
    /// By handle and device.
    streams: HashMap<u64, u64>,
    live: HashMap<u64, Live>,
    data: Vec<u8>,
    /// Names of marks, by their numbers.
    pub(super) names: Vec<String>,
}

impl Encoder {
    /// An encoder, and how the file begins.
    pub(super) fn new() -> (Self, Vec<u8>) {
        let mut encoder = Encoder {
            adler: Adler { a: 1, b: 0 },
            length: 0,
            events: 0,
            ids: 0,
            last_us: None,
            streams: HashMap::new(),
            live: HashMap::new(),
            data: Vec::new(),
            names: Vec::new(),
        };
        let header = encoder.header(OPEN);
        encoder.adler.add(&header);
        encoder.length = HEADER as u64;
        (encoder, [&[0x78, 1][..], &stored(&header)].concat())
    }

    fn header(&self, count: u32) -> Vec<u8> {
        [&b"GTR1"[..], &count.to_le_bytes()].concat()
    }

    /// Events in the order of their times, as the next chunk of the file.
    pub(super) fn chunk(&mut self, events: &[Event]) -> Vec<u8> {
        events.iter().for_each(|event| self.event(event));
        let data = std::mem::take(&mut self.data);
        self.adler.add(&data);
        self.length += data.len() as u64;
        let chunk = data.chunks(BLOCK).flat_map(stored).collect();
        self.data = data;
        self.data.clear();
        chunk
    }

    /// How the file ends, and how it begins then.
    pub(super) fn end(mut self) -> (Vec<u8>, Vec<u8>) {
        let header = self.header(u32::try_from(self.events).unwrap_or(OPEN));
        for (place, (&new, old)) in header.iter().zip(self.header(OPEN)).enumerate() {
            self.adler.replace(place as u64, self.length, old, new);
        }
        let sum = self.adler.b << 16 | self.adler.a;
        let last = [&[1, 0, 0, 0xff, 0xff][..], &sum.to_be_bytes()].concat();
        (last, [&[0x78, 1][..], &stored(&header)].concat())
    }

    fn event(&mut self, event: &Event) {
        let time_us = event.time_ns / 1000;
        match event.op() {
            Op::Allocate => {
                // The end of the one before was not seen.
                self.free(event.address, time_us);
                let (id, streams) = (self.ids, self.streams.len() as u64);
                self.ids += 1;
                // An allocation's operation is 0.
                let stream = *self.streams.entry(event.what).or_insert(streams);
                self.live.insert(event.address, Live { id, stream, is_shared: false });
                self.put(0, &[id, event.bytes, stream], time_us);
            }
            Op::Free => self.free(event.address, time_us),
            Op::Use => {
                if let Some(live) = self.live.get_mut(&event.address) {
                    live.is_shared = true;
                }
            }
            Op::Mark => self.mark(event.address as usize, time_us),
        }
    }

    fn free(&mut self, address: u64, time_us: u64) {
        let Some(Live { id, stream, is_shared }) = self.live.remove(&address) else { return };
        self.put(1, &[id, stream], time_us);
        if !is_shared {
            self.put(2, &[id, stream], time_us);
        }
    }

    fn mark(&mut self, number: usize, time_us: u64) {
        let name = self.names.get_mut(number).map(std::mem::take).unwrap_or_default();
        self.data.push(3);
        self.number(name.len() as u64);
        self.data.extend_from_slice(name.as_bytes());
        self.time(time_us);
        self.events += 1;
    }

    fn put(&mut self, op: u8, numbers: &[u64], time_us: u64) {
        self.data.push(op);
        numbers.iter().for_each(|&number| self.number(number));
        self.time(time_us);
        self.events += 1;
    }

    /// Microseconds since the event before.
    fn time(&mut self, time_us: u64) {
        let last = self.last_us.replace(time_us).unwrap_or(time_us);
        self.number(time_us.saturating_sub(last));
    }

    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.data.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.data.push(number as u8);
    }
}

/// A block of zlib's, of at most [`BLOCK`] bytes.
fn stored(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16;
    [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), data].concat()
}
