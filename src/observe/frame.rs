//! Reads RESP3 from a growing buffer, one frame at a time.
//!
//! Owns the wire format as far as the observer needs it: answers and pushes in the order in which the server wrote
//! them (the `redis` crate separates the two, and their order is the evidence here). Must not know what a frame
//! means. Frames go to `view`.
//!
//! Format: <https://github.com/redis/redis-specifications/blob/master/protocol/RESP3.md>. Streamed types are never
//! sent by servers and are refused.
use bytes::{Buf, Bytes, BytesMut};

/// A larger frame than this is no answer to anything that the observer asks.
const LENGTH_MAX: usize = 16 << 20;
/// Deeper nesting than this either.
const DEPTH_MAX: u32 = 8;

/// One RESP3 value. Maps are arrays of keys and values in turn; sets are arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// A string of any kind (simple, bulk, verbatim), and numbers other than integers, as they were written.
    Text(Bytes),
    /// An error answer.
    Error(Bytes),
    /// An integer.
    Int(i64),
    /// No value.
    Null,
    /// An answer with several values.
    Array(Vec<Frame>),
    /// Something that the server sent of its own accord.
    Push(Vec<Frame>),
}

impl Frame {
    /// The bytes of a string.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The values of an array.
    pub(super) fn array(&self) -> Option<&[Frame]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }
}

/// The bytes are not RESP3 as a server writes it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not RESP3: {0}")]
pub struct FrameError(&'static str);

/// Takes the first whole frame off `buffer`; none: more bytes are needed and nothing was taken.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(end) = skip(buffer, 0, 0)? else {
        return Ok(None);
    };
    let mut whole = buffer.split_to(end).freeze();
    build(&mut whole).map(Some)
}

/// Where the frame that begins at `at` ends, if all of it is there.
fn skip(buffer: &[u8], at: usize, depth: u32) -> Result<Option<usize>, FrameError> {
    let Some((kind, line, after)) = header(buffer, at)? else {
        return Ok(None);
    };
    match kind {
        b'$' | b'=' | b'!' => {
            let Some(length) = length(line)? else {
                return Ok(Some(after));
            };
            let end = after + length + 2;
            Ok((buffer.len() >= end).then_some(end))
        }
        b'*' | b'~' | b'>' | b'%' | b'|' => {
            if depth == DEPTH_MAX {
                return Err(FrameError("nested too deeply"));
            }
            let count =
                length(line)?.unwrap_or(0) * if matches!(kind, b'%' | b'|') { 2 } else { 1 };
            // An attribute stands before the value that it belongs to.
            let count = count + usize::from(kind == b'|');
            let mut end = after;
            for _ in 0..count {
                match skip(buffer, end, depth + 1)? {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Ok(Some(after)),
        _ => Err(FrameError("unknown type")),
    }
}

/// Type, rest of the first line, and where the next line begins.
type Header<'a> = (u8, &'a [u8], usize);

fn header(buffer: &[u8], at: usize) -> Result<Option<Header<'_>>, FrameError> {
    let rest = buffer.get(at..).unwrap_or_default();
    let Some((&kind, body)) = rest.split_first() else {
        return Ok(None);
    };
    let Some(end) = body.iter().position(|&b| b == b'\n') else {
        return if body.len() > LENGTH_MAX {
            Err(FrameError("line too long"))
        } else {
            Ok(None)
        };
    };
    let line = body[..end]
        .strip_suffix(b"\r")
        .ok_or(FrameError("line without CR"))?;
    Ok(Some((kind, line, at + 1 + end + 1)))
}

fn number(line: &[u8]) -> Result<i64, FrameError> {
    let text = std::str::from_utf8(line).ok();
    text.and_then(|t| t.parse().ok())
        .ok_or(FrameError("not a number"))
}

/// A length; none for the `-1` of RESP2's null.
fn length(line: &[u8]) -> Result<Option<usize>, FrameError> {
    match number(line)? {
        -1 => Ok(None),
        n => match usize::try_from(n) {
            Ok(n) if n <= LENGTH_MAX => Ok(Some(n)),
            _ => Err(FrameError("length out of range")),
        },
    }
}

/// Builds the frame at the head of `whole`, which [`skip`] found complete.
fn build(whole: &mut Bytes) -> Result<Frame, FrameError> {
    let Some((kind, line, after)) = header(whole, 0)? else {
        return Err(FrameError("cut short"));
    };
    let line = whole.slice_ref(line);
    whole.advance(after);
    Ok(match kind {
        b':' => Frame::Int(number(&line)?),
        b'-' => Frame::Error(line),
        b'_' => Frame::Null,
        b'$' | b'=' | b'!' => match length(&line)? {
            None => Frame::Null,
            Some(n) => {
                let body = whole.split_to(n);
                whole.advance(2);
                match kind {
                    b'!' => Frame::Error(body),
                    // A verbatim string begins with its format: `txt:`.
                    b'=' => Frame::Text(body.slice(body.len().min(4)..)),
                    _ => Frame::Text(body),
                }
            }
        },
        b'*' | b'~' | b'>' | b'%' => match length(&line)? {
            None => Frame::Null,
            Some(n) => {
                let n = if kind == b'%' { 2 * n } else { n };
                let items = (0..n)
                    .map(|_| build(whole))
                    .collect::<Result<Vec<_>, _>>()?;
                if kind == b'>' {
                    Frame::Push(items)
                } else {
                    Frame::Array(items)
                }
            }
        },
        b'|' => {
            for _ in 0..2 * length(&line)?.unwrap_or(0) {
                build(whole)?;
            }
            build(whole)?
        }
        _ => Frame::Text(line),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"+PONG\r\n>3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$4\r\nfp:a\r\n_\r\n:-2\r\n\
        >2\r\n$10\r\ninvalidate\r\n_\r\n-ERR no\r\n%1\r\n+k\r\n*-1\r\n=7\r\ntxt:abc\r\n$-1\r\n|1\r\n+a\r\n:1\r\n#t\r\n";

    fn text(s: &'static str) -> Frame {
        Frame::Text(Bytes::from_static(s.as_bytes()))
    }

    fn expected() -> Vec<Frame> {
        vec![
            text("PONG"),
            Frame::Push(vec![
                text("message"),
                text("__keyevent@0__:set"),
                text("fp:a"),
            ]),
            Frame::Null,
            Frame::Int(-2),
            Frame::Push(vec![text("invalidate"), Frame::Null]),
            Frame::Error(Bytes::from_static(b"ERR no")),
            Frame::Array(vec![text("k"), Frame::Null]),
            text("abc"),
            Frame::Null,
            text("t"),
        ]
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(cuts in proptest::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
            for pair in cuts.windows(2) {
                buffer.extend_from_slice(&STREAM[pair[0]..pair[1]]);
                while let Some(frame) = take(&mut buffer).unwrap() {
                    frames.push(frame);
                }
            }
            prop_assert_eq!(frames, expected());
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = take(&mut buffer) {}
        }
    }

    #[test]
    fn absurd_frames_are_refused() {
        for bytes in [
            "$99999999999\r\n",
            "*-7\r\n",
            "?\r\n",
            "+no carriage return\n",
            &"*1\r\n".repeat(20),
        ] {
            assert!(take(&mut BytesMut::from(bytes)).is_err(), "{bytes:?}");
        }
    }
}
