//! The bytes of ZooKeeper's protocol: jute, big-endian, each message behind its length
//! (<https://github.com/apache/zookeeper/blob/release-3.8.0/zookeeper-jute/src/main/resources/zookeeper.jute>).
//!
//! Owns writing and reading of records. Must not know connections.

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Op {
    Delete = 2,
    Exists = 3,
    SetData = 5,
    Children = 8,
    Sync = 9,
    Create2 = 15,
    AddWatch = 106,
    Close = -11,
}

/// The transaction number in an answer's place of a request: it is an event.
pub(super) const EVENT: i32 = -1;
/// A node that goes with its session and has a number behind its name that grows with each.
pub(super) const EPHEMERAL_SEQUENTIAL: i32 = 3;
/// A node that goes with its session.
pub(super) const EPHEMERAL: i32 = 1;
/// A node that stays.
pub(super) const PERSISTENT: i32 = 0;
/// A watch on a node and all below it, which is not used up by an event.
const PERSISTENT_RECURSIVE: i32 = 1;
/// Bytes of a session's password.
pub(super) const SECRET: usize = 16;

/// What is written.
#[derive(Debug, Default)]
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn int(mut self, n: i32) -> Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, n: i64) -> Self {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, on: bool) -> Self {
        self.0.push(u8::from(on));
        self
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
        let mut out = self.int(length);
        out.0.extend_from_slice(bytes);
        out
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// The message: its length, then what was written.
    pub(super) fn framed(self) -> Vec<u8> {
        Self::default().bytes(&self.0).0
    }
}

/// A request for a new session (id 0), or to go on with one that there is. `seen`: no server that is behind this
/// transaction may answer.
pub(super) fn connect(seen: i64, timeout_ms: i32, id: i64, secret: &[u8; SECRET]) -> Vec<u8> {
    let head = Out::default().int(0).long(seen).int(timeout_ms).long(id);
    head.bytes(secret).flag(false).framed()
}

/// The beginning of any other request.
pub(super) fn request(number: i32, op: Op) -> Out {
    Out::default().int(number).int(op as i32)
}

/// Creates a node that anybody may change.
pub(super) fn create(number: i32, path: &str, flags: i32) -> Vec<u8> {
    const ALL: i32 = 31;
    let head = request(number, Op::Create2).text(path).bytes(&[]);
    let acl = head.int(1).int(ALL).text("world").text("anyone");
    acl.int(flags).framed()
}

pub(super) fn add_watch(number: i32, path: &str) -> Vec<u8> {
    let head = request(number, Op::AddWatch).text(path);
    head.int(PERSISTENT_RECURSIVE).framed()
}

/// What is read; none where the bytes end too soon.
#[derive(Debug)]
pub(super) struct In<'a>(pub(super) &'a [u8]);

impl In<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<Vec<u8>> {
        // A length of −1 says that there is nothing.
        let length = usize::try_from(self.int()?).unwrap_or(0);
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head.to_vec())
    }

    pub(super) fn text(&mut self) -> Option<String> {
        let bytes = self.bytes()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.text()).collect()
    }

    pub(super) fn stat(&mut self) -> Option<Stat> {
        let (created, _modified) = (self.long()?, self.long()?);
        let (stamp_ms, _modified_ms) = (self.long()?, self.long()?);
        for _ in 0..3 {
            self.int()?;
        }
        let session = self.long()?;
        Some(Stat {
            created,
            stamp_ms,
            session,
        })
    }
}

/// What is told of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// The transaction that created it.
    pub(super) created: i64,
    /// The leader's time of day when it began that transaction, in ms since 1970.
    pub(super) stamp_ms: i64,
    /// The session that it goes with; 0: none.
    pub(super) session: i64,
}

/// The first whole message of `got`, without its length, taken out of it. `limit`: the longest that makes sense.
pub(super) fn message(got: &mut Vec<u8>, limit: usize) -> Option<Result<Vec<u8>, ()>> {
    let length = In(got).int()?;
    let Some(length) = usize::try_from(length).ok().filter(|l| *l <= limit) else {
        return Some(Err(()));
    };
    if got.len() < 4 + length {
        return None;
    }
    let rest = got.split_off(4 + length);
    let message = std::mem::replace(got, rest).split_off(4);
    Some(Ok(message))
}

/// The password that a server gives the session with this id: nothing but the first bytes of Java's generator, begun with
/// the id and a constant, so whoever knows the id knows it (`ZooKeeperServer.generatePasswd`).
pub(super) fn secret(id: i64) -> [u8; SECRET] {
    const SUPER_SECRET: i64 = 0xB341_5C00;
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = ((id ^ SUPER_SECRET) as u64 ^ MULTIPLIER) & MASK;
    let mut bytes = [0; SECRET];
    for four in bytes.chunks_exact_mut(4) {
        state = (state.wrapping_mul(MULTIPLIER) + 0xB) & MASK;
        four.copy_from_slice(&((state >> 16) as u32).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_whole_or_not_at_all() {
        let mut got = Out::default().int(7).text("ab").framed();
        let whole = got.clone();
        got.extend_from_slice(&[0, 0]);
        let message_one = message(&mut got, 100).expect("whole").expect("short");
        let mut read = In(&message_one);
        assert_eq!((read.int(), read.text()), (Some(7), Some("ab".to_owned())));
        assert_eq!(read.int(), None);
        assert_eq!((got.clone(), message(&mut got, 100)), (vec![0, 0], None));
        assert_eq!(message(&mut whole[..9].to_vec(), 100), None);
        assert_eq!(message(&mut whole.clone(), 5), Some(Err(())));
        let endless = (-2_i32).to_be_bytes();
        assert_eq!(message(&mut endless.to_vec(), 100), Some(Err(())));
    }

    #[test]
    fn a_password_is_what_javas_generator_says() {
        // new Random(0).nextBytes(16), as any Java prints it.
        let zero = secret(0xB341_5C00);
        assert_eq!(zero[..8], [0x60, 0xb4, 0x20, 0xbb, 0x38, 0x51, 0xd9, 0xd4]);
    }
}
