//! Files that are compressed with zstd: all frames of a file, one after another.
//!
//! Owns the order of frames, and that nothing is passed over: what is no frame, ends too early or has another checksum is an
//! error with its place. Must not know what is in them; blocks are decoded by `ruzstd`. Goes to `history`.
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::error::Error;
use std::io::{self, BufRead, Read};

/// How a frame begins.
const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// How one begins that is to be skipped, but for the low half of its first byte.
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// Whether this is the beginning of a compressed file.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    start.starts_with(&FRAME)
        || matches!(start, [first, rest @ ..] if first & 0xf0 == SKIPPABLE[0] && rest.starts_with(&SKIPPABLE[1..]))
}

/// What is wrong with a compressed file, and where.
#[derive(Debug, thiserror::Error)]
#[error("byte {byte} of the compressed file: {what}")]
pub(crate) struct Damaged {
    pub byte: u64,
    pub what: String,
}

/// Reads what all frames hold.
pub(crate) struct Frames<R> {
    source: Counted<R>,
    decoder: FrameDecoder,
    /// A frame was begun, and its end not seen.
    inside: bool,
}

impl<R: BufRead> Frames<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source: Counted { source, read: 0 },
            decoder: FrameDecoder::new(),
            inside: false,
        }
    }

    /// Steps to the next frame; whether there is one.
    fn enter(&mut self) -> io::Result<bool> {
        loop {
            let begin = self.source.read;
            if self.source.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.inside = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let mut part = self.source.by_ref().take(length);
                    if io::copy(&mut part, &mut io::sink())? < length {
                        return Err(damaged(begin, "a frame to skip is cut"));
                    }
                }
                Err(FrameDecoderError::ReadFrameHeaderError(
                    ReadFrameHeaderError::BadMagicNumber(_)
                    | ReadFrameHeaderError::MagicNumberReadError(_),
                )) => return Err(damaged(begin, "what follows the last frame is none")),
                Err(e) => return Err(damaged(begin, why("the frame that begins here", &e))),
            }
        }
    }

    /// At the end of a frame: what was decoded is what was compressed.
    fn leave(&mut self) -> io::Result<()> {
        self.inside = false;
        let written = self.decoder.get_checksum_from_data();
        if written.is_some() && written != self.decoder.get_calculated_checksum() {
            let what = "the frame that ends here has another checksum";
            return Err(damaged(self.source.read, what));
        }
        Ok(())
    }
}

/// What is wrong with a frame: it is cut, or what the decoder says.
fn why(what: &str, error: &(dyn Error + 'static)) -> String {
    let cut = |e: &(dyn Error + 'static)| {
        let io = e.downcast_ref::<io::Error>();
        io.is_some_and(|e| e.kind() == io::ErrorKind::UnexpectedEof)
    };
    let mut causes = std::iter::successors(Some(error), |&e| e.source());
    if causes.any(cut) {
        return format!("{what} is cut: the file ends within it");
    }
    format!("{what} cannot be decoded: {error}")
}

fn damaged(byte: u64, what: impl Into<String>) -> io::Error {
    let what = what.into();
    io::Error::other(Damaged { byte, what })
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside && !self.enter()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, one);
                decoded.map_err(|e| damaged(self.source.read, why("the frame", &e)))?;
            }
            let read = self.decoder.read(out)?;
            if read > 0 || out.is_empty() {
                return Ok(read);
            }
            self.leave()?;
        }
    }
}

/// A reader that knows how far it is.
struct Counted<R> {
    source: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out)?;
        self.read += read as u64;
        Ok(read)
    }
}
