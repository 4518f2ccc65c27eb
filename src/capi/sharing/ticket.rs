//! What one process tells another so that it finds memory.
//!
//! The first byte is beyond every version that PyTorch's own handles have, which are 64 bytes of the driver or begin with a version: a
//! PyTorch without cenote refuses a ticket.

/// The beginning of every ticket; the last byte is its version.
const MARK: [u8; 8] = *b"\xffcenote\x01";
/// Bytes of the mark, the secret, the socket's name with its length, and the count.
/// Not a multiple of 16: no ticket has the 64 bytes of a driver's handle.
const HEAD: usize = 8 + 16 + 12 + 8;
const ENTRY: usize = 16;
/// No ticket has more memory than any card.
const MOST: usize = 1 << 20;

/// Where an exporter can be asked, and the right to do so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exporter {
    /// Random, new in each process.
    pub(super) secret: [u8; 16],
    /// Of its socket, in the abstract namespace: length, then bytes.
    pub(super) name: [u8; 12],
}

/// A run of physical memory of another process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) exporter: Exporter,
    /// Numbers of the exporter's handles, side by side, each with its bytes.
    pub(super) parts: Vec<(u64, u64)>,
}

impl Ticket {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let count = (self.parts.len() as u64).to_le_bytes();
        let Exporter { secret, name } = &self.exporter;
        let mut bytes = [&MARK[..], secret, name, &count].concat();
        for (number, size) in &self.parts {
            bytes.extend([number.to_le_bytes(), size.to_le_bytes()].concat());
        }
        bytes
    }

    /// Nothing where the bytes are no ticket of this version.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Ticket> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let head = head.strip_prefix(&MARK)?;
        let (secret, head) = head.split_first_chunk()?;
        let (name, count) = head.split_first_chunk()?;
        let parts: Vec<_> = rest
            .chunks_exact(ENTRY)
            .filter_map(|entry| Some((word(entry)?, word(entry.get(8..)?)?)))
            .collect();
        let is_whole = word(count)? == parts.len() as u64 && rest.len() == parts.len() * ENTRY;
        let is_sane = parts.iter().all(|(_, size)| size.is_multiple_of(2 << 20) && *size > 0);
        let fits = (1..=MOST).contains(&parts.len())
            && parts.iter().try_fold(0u64, |sum, (_, size)| sum.checked_add(*size)).is_some();
        let exporter = Exporter { secret: *secret, name: *name };
        (is_whole && is_sane && fits).then_some(Ticket { exporter, parts })
    }

    pub(super) fn size(&self) -> u64 {
        self.parts.iter().map(|(_, size)| size).sum()
    }
}

/// The number that eight bytes say.
pub(super) fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().copied().map(u64::from_le_bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_comes_back_and_a_damaged_one_is_none() {
        let exporter = Exporter { secret: [7; 16], name: [5; 12] };
        let ticket = Ticket { exporter, parts: vec![(1, 2 << 20), (9, 32 << 20)] };
        let bytes = ticket.to_bytes();
        assert_eq!(Ticket::from_bytes(&bytes), Some(Ticket { ..ticket }));
        for cut in 0..bytes.len() {
            assert_eq!(Ticket::from_bytes(&bytes[..cut]), None);
        }
        let change = |place: usize| {
            let mut other = bytes.clone();
            other[place] ^= 1;
            Ticket::from_bytes(&other)
        };
        assert!((0..8).chain(36..44).all(|place| change(place).is_none()), "mark and count");
        assert_eq!(change(HEAD + 8), None, "a size that is no whole page");
        assert!(Ticket::from_bytes(&[bytes, vec![0]].concat()).is_none());
    }

    #[test]
    fn no_version_of_pytorch_takes_it_for_its_own() {
        let exporter = Exporter { secret: [7; 16], name: [5; 12] };
        let ticket = Ticket { exporter, parts: vec![(1, 2 << 20)] };
        let bytes = ticket.to_bytes();
        // 64 bytes are the driver's handle to any PyTorch.
        assert_ne!(HEAD % ENTRY, 64 % ENTRY, "no ticket has 64 bytes");
        assert!(bytes[0] > 2);
    }
}
