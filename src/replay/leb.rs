//! The numbers of a trace: bytes of a zlib stream, and LEB128.

use std::io::{self, Read};

/// Why a number could not be read.
#[derive(Debug)]
pub(super) enum Stop {
    /// The data ends here.
    End,
    /// It has more than 64 bits.
    TooLong,
    /// The stream is broken, or the file can't be read.
    Io(io::Error),
}

impl Stop {
    /// Whether the file just ends here, be it in the middle of something.
    pub(super) fn is_end(&self) -> bool {
        match self {
            Stop::End => true,
            Stop::TooLong => false,
            Stop::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Stop::End,
            _ => Stop::Io(error),
        }
    }
}

/// The next `N` bytes.
pub(super) fn bytes<const N: usize>(from: &mut impl Read) -> Result<[u8; N], Stop> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An unsigned LEB128 number.
pub(super) fn number(from: &mut impl Read) -> Result<u64, Stop> {
    let mut value = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = bytes(from)?;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return Err(Stop::TooLong);
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Stop::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let read = |bytes: &[u8]| number(&mut &bytes[..]).ok();
        assert_eq!(read(&[0]), Some(0));
        assert_eq!(read(&[0xe5, 0x8e, 0x26]), Some(624_485));
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(read(&largest), Some(u64::MAX));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(read(&[0x80; 11]), None);
        assert_eq!(read(&[0x80]), None);
    }
}
