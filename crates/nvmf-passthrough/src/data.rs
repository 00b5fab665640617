//! The data of a command while the kernel has it.

use std::sync::Arc;

use terrace_nvmf::initiator::connection::Transfer;

/// The two lowest bits of opcodes: the direction of data. The kernel looks at bit 0 alone, so data of
/// another direction must not get there: it would write to bytes that are shared.
const TO_CONTROLLER: u8 = 0b01;
const FROM_CONTROLLER: u8 = 0b10;

/// The most bytes that may lie anywhere. The kernel describes data in parts of 256 pages, and refuses
/// several parts of which the first does not begin at a page of the controller.
const MAX_UNALIGNED_BYTES: usize = 255 * PAGE_BYTES;
/// Bytes of a page of the controller, as Linux sets it.
const PAGE_BYTES: usize = 4096;

/// The data of a command. The bytes lie on the heap, and do not move with their owner.
#[derive(Debug)]
pub enum Data {
    None,
    Write(Arc<[u8]>),
    /// Data to the controller that had to be copied to another place.
    Copied(Room),
    Read(Room),
}

/// Bytes that begin at a page if they are many.
#[derive(Debug)]
pub struct Room {
    buffer: Vec<u8>,
    /// The first byte.
    from: usize,
    len: usize,
}

impl Room {
    fn new(len: usize) -> Self {
        if len <= MAX_UNALIGNED_BYTES {
            let buffer = vec![0; len];
            return Room {
                buffer,
                from: 0,
                len,
            };
        }
        let buffer = vec![0; len + PAGE_BYTES - 1];
        let from = buffer.as_ptr().addr().wrapping_neg() % PAGE_BYTES;
        Room { buffer, from, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[self.from..self.from + self.len]
    }
}

impl Data {
    pub fn new(transfer: Transfer) -> Self {
        match transfer {
            Transfer::None => Data::None,
            Transfer::Write(bytes)
                if bytes.len() > MAX_UNALIGNED_BYTES
                    && !bytes.as_ptr().addr().is_multiple_of(PAGE_BYTES) =>
            {
                let mut room = Room::new(bytes.len());
                room.bytes().copy_from_slice(&bytes);
                Data::Copied(room)
            }
            Transfer::Write(bytes) => Data::Write(bytes),
            Transfer::Read(bytes) => Data::for_read(bytes),
        }
    }

    /// Makes room for data. It is zeroed: a controller may send less.
    pub fn for_read(bytes: u32) -> Self {
        Data::Read(Room::new(bytes as usize))
    }

    /// Returns whether the data go in the direction that the opcode has.
    pub fn fits(&self, opcode: u8) -> bool {
        match self {
            Data::None => true,
            Data::Write(_) | Data::Copied(_) => opcode & 0b11 == TO_CONTROLLER,
            Data::Read(_) => opcode & 0b11 == FROM_CONTROLLER,
        }
    }

    /// Returns the address and the number of the bytes, for the kernel.
    pub fn address(&mut self) -> (u64, u32) {
        let (address, bytes) = match self {
            Data::None => return (0, 0),
            Data::Write(bytes) => (bytes.as_ptr().expose_provenance(), bytes.len()),
            Data::Copied(room) | Data::Read(room) => {
                (room.bytes().as_mut_ptr().expose_provenance(), room.len)
            }
        };
        match u32::try_from(bytes) {
            // The kernel wants no address where no data are.
            Ok(0) => (0, 0),
            Ok(bytes) => (address as u64, bytes),
            // No command has more: `Request::command` refuses it.
            Err(_) => (0, 0),
        }
    }

    /// Returns the first bytes that were read, `max_bytes` at most.
    pub fn into_read(self, max_bytes: usize) -> Vec<u8> {
        let Data::Read(room) = self else {
            return Vec::new();
        };
        let Room {
            mut buffer,
            from,
            len,
        } = room;
        let len = len.min(max_bytes);
        if from > 0 {
            buffer.copy_within(from..from + len, 0);
        }
        buffer.truncate(len);
        buffer
    }
}

/// Returns whether data go in the direction that the opcode has.
pub fn fits(transfer: &Transfer, opcode: u8) -> bool {
    match transfer {
        Transfer::None => true,
        Transfer::Write(_) => opcode & 0b11 == TO_CONTROLLER,
        Transfer::Read(_) => opcode & 0b11 == FROM_CONTROLLER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_bytes_begin_at_a_page() {
        for bytes in [1, MAX_UNALIGNED_BYTES, MAX_UNALIGNED_BYTES + 1, 8 << 20] {
            let value: Arc<[u8]> = (0..bytes).map(|place| (place % 251) as u8).collect();
            let mut write = Data::new(Transfer::Write(value.clone()));
            let mut read = Data::for_read(bytes as u32);
            for data in [&mut write, &mut read] {
                let (address, len) = data.address();
                assert_eq!(len as usize, bytes);
                assert!(bytes <= MAX_UNALIGNED_BYTES || address % 4096 == 0);
            }
            if let Data::Copied(room) = &mut write {
                assert!(room.bytes() == &value[..], "{bytes}");
            }
            if let Data::Read(room) = &mut read {
                room.bytes().copy_from_slice(&value);
            }
            assert!(read.into_read(usize::MAX) == value[..], "{bytes}");
        }
        let mut read = Data::for_read(2 << 20);
        if let Data::Read(room) = &mut read {
            room.bytes()[..3].copy_from_slice(b"abc");
        }
        assert_eq!(read.into_read(3), b"abc");
    }

    #[test]
    fn no_bytes_have_no_address() {
        assert_eq!(Data::None.address(), (0, 0));
        assert_eq!(Data::for_read(0).address(), (0, 0));
        let empty = Transfer::Write(Arc::from(&b""[..]));
        assert_eq!(Data::new(empty).address(), (0, 0));
    }

    #[test]
    fn data_go_one_way() {
        let write = Data::new(Transfer::Write(Arc::from(&b"a"[..])));
        let read = Data::for_read(1);
        let fits = [0x01, 0x02, 0x06, 0x10, 0x14].map(|code| (write.fits(code), read.fits(code)));
        let transfers = [Transfer::Write(Arc::from(&b"a"[..])), Transfer::Read(1)];
        for opcode in [0x01, 0x02, 0x06, 0x10, 0x14] {
            let [write_fits, read_fits] =
                [0, 1].map(|at: usize| super::fits(&transfers[at], opcode));
            assert_eq!(write_fits, write.fits(opcode));
            assert_eq!(read_fits, read.fits(opcode));
        }
        let (to, from, none) = ((true, false), (false, true), (false, false));
        assert_eq!(fits, [to, from, from, none, none]);
        assert!(Data::None.fits(0x14));
    }
}
