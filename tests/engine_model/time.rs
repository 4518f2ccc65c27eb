//! Device time: work of a stream is done in order, and only when somebody says so.

use std::collections::{BTreeMap, HashMap, VecDeque};

use cenote::cuda::{Event, Handle};

use super::memory::Extent;

/// Work on a block.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Addresses that it uses.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The memory that lay there when it was launched.
    pub(crate) extents: Vec<Extent>,
    /// Which owner of the memory launched it.
    pub(crate) owner: u64,
    /// The private pool that the memory belongs to; 0 for none.
    pub(crate) pool: u64,
    /// A graph launches it: what is of one pool is in order then.
    pub(crate) is_graph: bool,
    /// It waits for the work so far of this stream too.
    pub(crate) behind: Option<usize>,
}

#[derive(Debug)]
struct Launched {
    number: u64,
    work: Work,
    behind: Option<(usize, u64)>,
}

#[derive(Debug, Default)]
struct Stream {
    submitted: u64,
    done: u64,
    works: VecDeque<Launched>,
    captures: bool,
    handle: usize,
}

impl Stream {
    fn new(handle: usize) -> Self {
        Stream { handle, ..Stream::default() }
    }
}

#[derive(Debug)]
struct Use {
    stream: usize,
    number: u64,
    begin: u64,
    end: u64,
    owner: u64,
    pool: u64,
    is_graph: bool,
}

/// Who is given memory, or works on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) owner: u64,
    pub(crate) pool: u64,
    pub(crate) is_graph: bool,
}

impl User {
    /// Whether other work in the same private pool is none of its business.
    fn is_in_order(self, one: &Use) -> bool {
        self.pool != 0 && one.pool == self.pool && (one.is_graph || self.is_graph)
    }
}

#[derive(Debug)]
pub(crate) struct Time {
    /// All that ever began; those that ended do their work all the same.
    streams: Vec<Stream>,
    /// The stream of each handle, unless it has ended.
    current: Vec<Option<usize>>,
    /// What unfinished work uses.
    uses: HashMap<Handle, Vec<Use>>,
    /// Stream, and how much of its work is before it.
    pub(crate) events: BTreeMap<Event, (usize, u64)>,
    next_event: Event,
}

/// Unfinished works of a stream, at most: the oldest are done then.
const MOST: usize = 48;

impl Time {
    pub(crate) fn new(streams: usize) -> Self {
        Time {
            streams: (0..streams).map(Stream::new).collect(),
            current: (0..streams).map(Some).collect(),
            uses: HashMap::new(),
            events: BTreeMap::new(),
            next_event: 1,
        }
    }

    /// The stream of a handle; none if it has ended.
    pub(crate) fn current(&self, handle: usize) -> Option<usize> {
        *self.current.get(handle)?
    }

    /// The same, and a new one if it has ended.
    pub(crate) fn begin(&mut self, handle: usize) -> usize {
        if let Some(stream) = self.current(handle) {
            return stream;
        }
        self.streams.push(Stream::new(handle));
        self.current[handle] = Some(self.streams.len() - 1);
        self.streams.len() - 1
    }

    /// The stream of a handle is destroyed.
    pub(crate) fn end(&mut self, handle: usize) {
        self.current[handle] = None;
    }

    pub(crate) fn has_ended(&self, stream: usize) -> bool {
        !self.current.contains(&Some(stream))
    }

    pub(crate) fn captures(&self, stream: usize) -> bool {
        self.streams[stream].captures
    }

    pub(crate) fn capture(&mut self, stream: usize, begin: bool) {
        self.streams[stream].captures = begin;
    }

    pub(crate) fn end_captures(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.captures = false);
    }

    pub(crate) fn any_captures(&self) -> bool {
        self.streams.iter().any(|stream| stream.captures)
    }

    pub(crate) fn launch(&mut self, stream: usize, work: Work) {
        if self.streams[stream].works.len() >= MOST {
            let number = self.streams[stream].works[MOST / 2].number;
            self.finish(stream, number);
        }
        let behind = work.behind.map(|other| (other, self.streams[other].submitted));
        let on = &mut self.streams[stream];
        on.submitted += 1;
        let number = on.submitted;
        for &(handle, begin, end) in &work.extents {
            let Work { owner, pool, is_graph, .. } = work;
            let one = Use { stream, number, begin, end, owner, pool, is_graph };
            self.uses.entry(handle).or_default().push(one);
        }
        on.works.push_back(Launched { number, work, behind });
    }

    fn pop(&mut self, stream: usize) {
        let on = &mut self.streams[stream];
        let Some(Launched { number, work, .. }) = on.works.pop_front() else { return };
        on.done = number;
        for (handle, ..) in work.extents {
            if let Some(uses) = self.uses.get_mut(&handle) {
                uses.retain(|one| (one.stream, one.number) != (stream, number));
                if uses.is_empty() {
                    self.uses.remove(&handle);
                }
            }
        }
    }

    /// Does the work of a stream up to a number, and all that it waits for.
    pub(crate) fn finish(&mut self, stream: usize, number: u64) {
        while self.streams[stream].done < number {
            match self.streams[stream].works.front().map(|launched| launched.behind) {
                None => return,
                Some(behind) => {
                    if let Some((other, number)) = behind {
                        self.finish(other, number);
                    }
                    self.pop(stream);
                }
            }
        }
    }

    pub(crate) fn finish_all(&mut self) {
        (0..self.streams.len()).for_each(|stream| self.finish(stream, u64::MAX));
    }

    /// Does at most so many works of a stream; one that waits for another stream stops it.
    pub(crate) fn advance(&mut self, stream: usize, works: u64) {
        for _ in 0..works {
            let Some(front) = self.streams[stream].works.front() else { return };
            if front.behind.is_some_and(|(other, number)| self.streams[other].done < number) {
                return;
            }
            self.pop(stream);
        }
    }

    /// The same for the streams that have a handle or had it.
    pub(crate) fn advance_all(&mut self, handle: usize, works: u64) {
        for stream in 0..self.streams.len() {
            if self.streams[stream].handle == handle {
                self.advance(stream, works);
            }
        }
    }

    pub(crate) fn record(&mut self, stream: usize) -> Event {
        let event = self.next_event;
        self.next_event += 1;
        self.events.insert(event, (stream, self.streams[stream].submitted));
        event
    }

    pub(crate) fn is_done(&self, event: Event) -> Option<bool> {
        let &(stream, number) = self.events.get(&event)?;
        Some(self.streams[stream].done >= number)
    }

    /// Unfinished work on some of this memory that belongs to another owner and is not ordered before the streams.
    pub(crate) fn conflict(
        &self,
        extents: &[Extent],
        ordered: [usize; 2],
        user: User,
    ) -> Option<String> {
        extents.iter().find_map(|&(handle, begin, end)| {
            let clash = |one: &&Use| {
                one.owner != user.owner
                    && !user.is_in_order(one)
                    && !ordered.contains(&one.stream)
                    && one.begin < end
                    && begin < one.end
            };
            let one = self.uses.get(&handle)?.iter().find(clash)?;
            Some(format!("bytes {begin:#x} to {end:#x} of handle {handle}: {one:x?}"))
        })
    }

    /// Unfinished work on memory that does not belong to a private pool's own past on the stream.
    pub(crate) fn foreign(&self, extents: &[Extent], stream: usize, pool: u64) -> Option<String> {
        extents.iter().find_map(|&(handle, begin, end)| {
            let clash = |one: &&Use| {
                let is_own = one.pool == pool && (one.stream == stream || one.is_graph);
                !is_own && one.begin < end && begin < one.end
            };
            let one = self.uses.get(&handle)?.iter().find(clash)?;
            Some(format!("bytes {begin:#x} to {end:#x} of handle {handle}: {one:x?}"))
        })
    }

    /// Unfinished work that uses some of these addresses.
    pub(crate) fn at(&self, begin: u64, end: u64) -> Option<(usize, &Work)> {
        let overlaps = |work: &&Work| work.begin < end && begin < work.end;
        self.streams.iter().enumerate().find_map(|(stream, on)| {
            let mut works = on.works.iter().map(|launched| &launched.work);
            works.find(overlaps).map(|work| (stream, work))
        })
    }
}
