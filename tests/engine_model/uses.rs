//! What a program does with its blocks, and wrong addresses.

use super::operation::{Block, Wrong};
use super::time::Work;
use super::world::{Live, World};

impl World {
    /// An address at which no live block begins.
    pub(crate) fn wrong(&self, wrong: Wrong, n: usize) -> Option<u64> {
        match wrong {
            Wrong::Inside => {
                let (address, _) = self.blocks[self.find(Block::Nth(n))?];
                let step = [1, 8, 256, 512, 4096, 1 << 16, 1 << 21][n % 7];
                (step < self.live[&address].bytes).then_some(address + step)
            }
            Wrong::Freed => self.freed.get(n % self.freed.len().max(1)).copied(),
            Wrong::Foreign => Some([0, 1, 512, 1 << 39, 1 << 40, (1 << 47) - 512, u64::MAX][n % 7])
                .filter(|address| !self.live.contains_key(address)),
        }
    }

    pub(crate) fn announce(&self, block: Block, stream: usize) -> Result<(), String> {
        let Some(place) = self.find(block) else { return Ok(()) };
        let (address, _) = self.blocks[place];
        self.engine.card().state().time.begin(stream);
        let answer = self.engine.record_use(address, stream);
        answer.map_err(|_| format!("use of {address:#x} by stream {stream} was refused"))
    }

    /// Work on a block, on its stream or on another one that waits for it; none on its stream if that has ended.
    pub(crate) fn launch(
        &self,
        block: Block,
        handle: Option<usize>,
        is_graph: bool,
    ) -> Result<(), String> {
        let Some(place) = self.find(block) else { return Ok(()) };
        let (address, _) = self.blocks[place];
        let Live { bytes, stream: home, ref extents, owner, pool, .. } = self.live[&address];
        let stream = {
            let time = &mut self.engine.card().state().time;
            let stream = handle.map_or(home, |handle| time.begin(handle));
            if time.has_ended(stream) {
                return Ok(());
            }
            stream
        };
        let work = Work {
            begin: address,
            end: address + bytes,
            extents: extents.clone(),
            owner,
            pool,
            is_graph,
            behind: Some(home).filter(|&home| stream != home),
        };
        self.engine.card().launch(stream, home, work)
    }

    /// A graph of the block's pool runs, on a stream that the engine knows.
    pub(crate) fn replay(&self, block: Block, handle: usize) -> Result<(), String> {
        let Some(place) = self.find(block) else { return Ok(()) };
        let pool = self.live[&self.blocks[place].0].pool;
        let stream = self.engine.card().state().time.current(handle);
        let is_known = stream.is_some_and(|stream| self.known.contains(&stream));
        if !is_known || !self.open.values().any(|&open| open == pool) {
            return Ok(());
        }
        self.launch(block, Some(handle), true)
    }

    /// A stream is destroyed; it does not capture then.
    pub(crate) fn end_stream(&self, handle: usize) {
        let time = || self.engine.card().state();
        let Some(stream) = time().time.current(handle) else { return };
        if !time().time.captures(stream) {
            self.engine.forget_stream(handle);
            time().time.end(handle);
        }
    }

    /// The last graph of a pool is gone.
    pub(crate) fn end_pool(&mut self, name: u64) {
        if let Some(pool) = self.open.remove(&name) {
            self.engine.forget_pool(pool);
            self.captured.retain(|(_, block)| block.pool != pool);
            self.pools.iter_mut().filter(|of| **of == pool).for_each(|of| *of = 0);
        }
    }
}
