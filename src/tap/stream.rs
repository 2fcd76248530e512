//! One direction of a connection as messages: whole ones up to a bound, longer ones in pieces.
//!
//! Owns the buffer between reading and passing on. Must not know what becomes of a message. Bytes come out in the order
//! in which they came in, none added and none lost, which a property test holds. Chunks go to `conn`.
use super::scan::{Scan, ScanError, Shape, Side};
use bytes::{Bytes, BytesMut};

/// A message longer than this is passed on in pieces, each as it comes.
const WHOLE_MAX: usize = 64 << 10;

/// A piece of a direction.
#[derive(Debug, PartialEq, Eq)]
pub enum Chunk {
    /// A message, or the head of one that goes on in [`Chunk::Rest`] (`whole` is false then).
    Message {
        /// Its bytes.
        bytes: Bytes,
        /// What it looks like; of a head, as far as that goes.
        shape: Shape,
        /// Nothing of it is missing.
        whole: bool,
    },
    /// More of the message whose head was given.
    Rest {
        /// The bytes.
        bytes: Bytes,
        /// The message ends with them.
        last: bool,
    },
}

/// One direction.
#[derive(Debug)]
pub struct Stream {
    scan: Scan,
    /// Bytes that were read and not yet given out.
    pub buffer: BytesMut,
    scanned: usize,
    in_rest: bool,
}

impl Stream {
    /// A direction at its beginning.
    pub fn new(side: Side) -> Self {
        Self {
            scan: Scan::new(side),
            buffer: BytesMut::with_capacity(16 << 10),
            scanned: 0,
            in_rest: false,
        }
    }

    /// The next piece; none until more bytes are in [`Stream::buffer`].
    ///
    /// # Errors
    /// The bytes are no RESP; they are still in the buffer, and are to be passed on unread.
    pub fn next(&mut self) -> Result<Option<Chunk>, ScanError> {
        let (used, ended) = self.scan.take(&self.buffer[self.scanned..])?;
        self.scanned += used;
        if !ended && (self.scanned == 0 || (!self.in_rest && self.scanned <= WHOLE_MAX)) {
            return Ok(None);
        }
        let bytes = self.buffer.split_to(self.scanned).freeze();
        self.scanned = 0;
        if self.in_rest {
            self.in_rest = !ended;
            if ended {
                self.scan.begin();
            }
            return Ok(Some(Chunk::Rest { bytes, last: ended }));
        }
        let shape = if ended {
            self.scan.begin()
        } else {
            self.in_rest = true;
            self.scan.shape().clone()
        };
        Ok(Some(Chunk::Message {
            bytes,
            shape,
            whole: ended,
        }))
    }
}
