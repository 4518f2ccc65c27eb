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
        let answer = self.engine.record_use(address, stream);
        answer.map_err(|_| format!("use of {address:#x} by stream {stream} was refused"))
    }

    /// Work on a block, on its stream or on another one that waits for it.
    pub(crate) fn launch(&self, block: Block, stream: Option<usize>) -> Result<(), String> {
        let Some(place) = self.find(block) else { return Ok(()) };
        let (address, _) = self.blocks[place];
        let Live { bytes, stream: home, ref extents, owner, .. } = self.live[&address];
        let work = Work {
            begin: address,
            end: address + bytes,
            extents: extents.clone(),
            owner,
            behind: stream.filter(|&stream| stream != home).map(|_| home),
        };
        self.engine.card().launch(stream.unwrap_or(home), home, work)
    }
}
