//! A zlib stream that must come to its end: flate2's own reader takes a file that is cut off in its checksum for a whole one.

use std::io::{self, BufRead, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// The data of a zlib stream. A broken stream is an error of the kind `InvalidInput`, one that is cut off of the kind
/// `InvalidData`.
#[derive(Debug)]
pub(super) struct Inflate<R> {
    from: R,
    state: Decompress,
    is_over: bool,
}

impl<R: BufRead> Inflate<R> {
    pub(super) fn new(from: R) -> Self {
        Inflate { from, state: Decompress::new(true), is_over: false }
    }

    /// Whether something follows the stream.
    pub(super) fn is_followed(&mut self) -> io::Result<bool> {
        Ok(!self.from.fill_buf()?.is_empty())
    }
}

impl<R: BufRead> Read for Inflate<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while !self.is_over && !to.is_empty() {
            let input = self.from.fill_buf()?;
            let is_last = input.is_empty();
            let (taken, given) = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(input, to, FlushDecompress::None);
            let status = status
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
            self.from.consume((self.state.total_in() - taken) as usize);
            let given = (self.state.total_out() - given) as usize;
            self.is_over = status == Status::StreamEnd;
            if given > 0 {
                return Ok(given);
            }
            if is_last && !self.is_over {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is cut off"));
            }
        }
        Ok(0)
    }
}
