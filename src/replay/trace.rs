//! Reading traces in the format GTR1: zlib over a magic, the number of events, and the events in LEB128.
//!
//! A trace decides what is replayed, so nothing in it is taken on trust: a part that is wrong is an error with the number of its
//! event, and the header's count sets no memory aside.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::error::TraceError;
use super::inflate::Inflate;
use super::leb::{Stop, bytes, number};

/// The first four bytes.
const MAGIC: [u8; 4] = *b"GTR1";
/// The count of a trace that was not closed: as many events as there are.
const OPEN: u32 = u32::MAX;
/// Bytes of a mark's name.
const LONGEST_NAME: u64 = 1 << 16;

/// One step of a job. Blocks are numbered from 0 in the order of their allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A block of `bytes`, 0 among them, for work on a stream.
    Allocate {
        /// The block.
        block: u32,
        /// Its stream, by the order in which streams were first seen.
        stream: u32,
        /// What was asked for.
        bytes: u64,
    },
    /// The block may be reused on its own stream from here.
    Free {
        /// The block.
        block: u32,
    },
    /// The block may be reused on every stream from here.
    Completed {
        /// The block.
        block: u32,
    },
}

/// What a job allocated and freed.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The file's name without its ending.
    pub name: String,
    /// In their order.
    pub events: Vec<Event>,
    /// Blocks allocated.
    pub blocks: u32,
    /// Most bytes live at once, as requested. A block is live up to its [`Free`](Event::Free).
    pub peak_live: u64,
    /// Events up to and with the one that made the peak.
    pub peak_after: usize,
    /// Microseconds between the first event and the last.
    pub duration_us: u64,
    /// Steps that the job named, and how many events came before each.
    pub marks: Vec<(usize, String)>,
    /// The job was killed while it was recorded: what came until then is there.
    pub is_cut: bool,
}

impl Trace {
    /// Reads a trace. Memory is in proportion to the events that are there, whatever the file says of itself.
    ///
    /// # Errors
    /// If the file can't be read, or anything in it is wrong.
    pub fn read(path: &Path) -> Result<Trace, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        // Opening a folder works; reading it is what fails.
        if file.metadata().map_err(io)?.is_dir() {
            return Err(io(io::ErrorKind::IsADirectory.into()));
        }
        Trace::parse(BufReader::new(file), path)
    }

    /// The same of data that is there already; `path` gives the name, and is in the messages.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(data: impl BufRead, path: &Path) -> Result<Trace, TraceError> {
        let io = |source| TraceError::Io { path: path.to_owned(), source };
        let mut data = BufReader::new(Inflate::new(data));
        let count = header(&mut data, path)?;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut reader = Reader::new(name);
        let wrong = |event, what| TraceError::Event { path: path.to_owned(), event, what };
        for event in 1..=u64::from(count) {
            match reader.step(&mut data) {
                Ok(()) => {}
                Err(Wrong::Stop(stop)) if count == OPEN && stop.is_end() => {
                    reader.trace.is_cut = true;
                    return Ok(reader.trace);
                }
                Err(wrongness) => return Err(wrong(event, wrongness.tell(count))),
            }
        }
        let more = match bytes::<1>(&mut data) {
            Err(Stop::End) => data.get_mut().is_followed().map_err(io)?,
            Err(stop) => return Err(wrong(u64::from(count) + 1, Wrong::Stop(stop).tell(count))),
            Ok(_) => true,
        };
        if more {
            let what = format!("there is more data after the {count} events of the header");
            return Err(wrong(u64::from(count) + 1, what));
        }
        Ok(reader.trace)
    }
}

/// The number of events.
fn header(data: &mut impl Read, path: &Path) -> Result<u32, TraceError> {
    let error = |stop| match stop {
        Stop::Io(source)
            if !matches!(
                source.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
            ) =>
        {
            TraceError::Io { path: path.to_owned(), source }
        }
        Stop::Io(error) if error.kind() == io::ErrorKind::InvalidInput => {
            TraceError::Foreign { path: path.to_owned(), what: "it is no zlib data, or damaged" }
        }
        _ => TraceError::Foreign { path: path.to_owned(), what: "it ends in its header" },
    };
    let magic = bytes::<4>(data).map_err(error)?;
    if magic != MAGIC && magic.starts_with(b"GTR") {
        let magic = String::from_utf8_lossy(&magic).escape_debug().to_string();
        return Err(TraceError::Version { path: path.to_owned(), magic });
    }
    if magic != MAGIC {
        let what = "it does not begin with GTR1";
        return Err(TraceError::Foreign { path: path.to_owned(), what });
    }
    bytes(data).map(u32::from_le_bytes).map_err(error)
}

/// What is wrong with an event.
enum Wrong {
    Stop(Stop),
    What(String),
}

impl From<Stop> for Wrong {
    fn from(stop: Stop) -> Self {
        Wrong::Stop(stop)
    }
}

impl Wrong {
    fn tell(self, count: u32) -> String {
        match self {
            Wrong::What(what) => what,
            Wrong::Stop(Stop::End) => {
                format!("the file ends before it, and its header says {count} events")
            }
            Wrong::Stop(Stop::TooLong) => "a number has more than 64 bits".to_owned(),
            Wrong::Stop(Stop::Io(error)) => format!("the data is damaged ({error})"),
        }
    }
}

/// A block that is not done with.
struct Open {
    block: u32,
    bytes: u64,
    is_freed: bool,
}

struct Reader {
    trace: Trace,
    open: HashMap<u64, Open>,
    last: Option<u64>,
    streams: u32,
    live: u64,
}

impl Reader {
    fn new(name: String) -> Self {
        let trace = Trace {
            name,
            events: Vec::new(),
            blocks: 0,
            peak_live: 0,
            peak_after: 0,
            duration_us: 0,
            marks: Vec::new(),
            is_cut: false,
        };
        Reader { trace, open: HashMap::new(), last: None, streams: 0, live: 0 }
    }

    fn step(&mut self, data: &mut impl Read) -> Result<(), Wrong> {
        let [op] = bytes(data)?;
        let event = match op {
            0 => Some(self.allocate(data)?),
            1 | 2 => Some(self.free(data, op == 2)?),
            3 => {
                self.mark(data)?;
                None
            }
            _ => return Err(Wrong::What(format!("there is no operation {op}"))),
        };
        // Since the event before: a replay does not wait.
        self.trace.duration_us = self.trace.duration_us.saturating_add(number(data)?);
        self.trace.events.extend(event);
        if self.live > self.trace.peak_live {
            self.trace.peak_live = self.live;
            self.trace.peak_after = self.trace.events.len();
        }
        Ok(())
    }

    fn allocate(&mut self, data: &mut impl Read) -> Result<Event, Wrong> {
        let (id, bytes) = (number(data)?, number(data)?);
        let stream = self.stream(data)?;
        if self.last.is_some_and(|last| id <= last) {
            return Err(Wrong::What(format!("block {id} is allocated twice, or out of order")));
        }
        self.last = Some(id);
        self.live = self.live.checked_add(bytes).ok_or_else(|| {
            Wrong::What(format!("with the {bytes} bytes of block {id} more than 2^64 are live"))
        })?;
        let block = self.trace.blocks;
        self.trace.blocks += 1;
        self.open.insert(id, Open { block, bytes, is_freed: false });
        Ok(Event::Allocate { block, stream, bytes })
    }

    fn free(&mut self, data: &mut impl Read, completed: bool) -> Result<Event, Wrong> {
        let id = number(data)?;
        self.stream(data)?;
        let is_new = self.last.is_none_or(|last| id > last);
        let wrong = |what: &str| Wrong::What(format!("block {id} {what}"));
        let open = self.open.get_mut(&id).ok_or_else(|| match is_new {
            true => wrong("is freed and was never allocated"),
            false => wrong("is freed again, or was never allocated"),
        })?;
        let block = open.block;
        match (completed, open.is_freed) {
            (false, true) => Err(wrong("is freed twice")),
            (true, false) => Err(wrong("is done with before it is freed")),
            (false, false) => {
                open.is_freed = true;
                self.live -= open.bytes;
                Ok(Event::Free { block })
            }
            (true, true) => {
                self.open.remove(&id);
                Ok(Event::Completed { block })
            }
        }
    }

    fn mark(&mut self, data: &mut impl Read) -> Result<(), Wrong> {
        let length = number(data)?;
        if length > LONGEST_NAME {
            return Err(Wrong::What(format!("a mark's name has {length} bytes")));
        }
        let mut name = vec![0; length as usize];
        data.read_exact(&mut name).map_err(Stop::from)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        self.trace.marks.push((self.trace.events.len(), name));
        Ok(())
    }

    fn stream(&mut self, data: &mut impl Read) -> Result<u32, Wrong> {
        let stream = number(data)?;
        if stream > u64::from(self.streams) {
            let seen = self.streams;
            return Err(Wrong::What(format!("stream {stream} comes when only {seen} were seen")));
        }
        let stream = stream as u32;
        self.streams = self.streams.max(stream.saturating_add(1));
        Ok(stream)
    }
}
