//! Compressed histories: all of a file is read, or it is an error with its place.
//!
//! Owns the frames of zstd. What stands in a history is tested elsewhere.
use fencepost_checker::{HistoryError, Verdict, check_path};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::Write as _;

const TWICE: [&str; 4] = [
    "{:type :invoke, :process 0, :f :acquire}\n",
    "{:type :ok, :process 0, :f :acquire}\n{:type :invoke, :process 1,",
    "",
    " :f :acquire}\n{:type :ok, :process 1, :f :acquire}\n",
];

fn frame(text: &str) -> Vec<u8> {
    compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
}

/// A frame that readers skip, of these many bytes.
fn skippable(number: u8, length: u32) -> Vec<u8> {
    let mut bytes = vec![0x50 | number, 0x2a, 0x4d, 0x18];
    bytes.extend(length.to_le_bytes());
    bytes.resize(8 + length as usize, b'x');
    bytes
}

fn check(bytes: &[u8]) -> Result<Verdict, HistoryError> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("writes");
    check_path(file.path())
}

fn events(bytes: &[u8]) -> u64 {
    match check(bytes) {
        Ok(v) => v.counts["events"],
        Err(e) => panic!("{e}"),
    }
}

/// What is wrong, and at which byte.
fn wrong(bytes: &[u8]) -> (u64, String) {
    match check(bytes) {
        Err(e @ HistoryError::Compressed { byte, .. }) => {
            assert!(!e.hint().is_empty());
            (byte, e.to_string())
        }
        Err(e) => panic!("{e}"),
        Ok(v) => panic!("it was judged: {:?}", v.counts),
    }
}

#[test]
fn all_frames_are_read() {
    let whole = frame(&TWICE.concat());
    assert_eq!(events(&whole), 4);
    let parts: Vec<u8> = TWICE.iter().flat_map(|t| frame(t)).collect();
    assert_eq!(events(&parts), 4);
    let between: Vec<u8> = TWICE
        .iter()
        .flat_map(|t| [frame(t), skippable(3, 9)].concat())
        .collect();
    assert_eq!(events(&between), 4);
    // Before them, too, which some tools use for an index; also an empty one.
    for length in [0, 70_000] {
        assert_eq!(events(&[skippable(0, length), whole.clone()].concat()), 4);
        assert_eq!(events(&[skippable(15, length), parts.clone()].concat()), 4);
    }
    assert!(matches!(check(&skippable(1, 5)), Err(HistoryError::Empty)));
}

#[test]
fn what_is_no_frame_is_told() {
    let whole = frame(&TWICE.concat());
    let end = whole.len() as u64;
    for garbage in [
        "x",
        "{:type :ok, :process 0, :f :acquire}",
        "\n",
        "\0\0\0\0\0",
    ] {
        let (byte, said) = wrong(&[&whole, garbage.as_bytes()].concat());
        assert_eq!(byte, end, "{garbage:?}: {said}");
    }
    let (byte, said) = wrong(&[&whole[..], &skippable(0, 100)[..50]].concat());
    assert_eq!(byte, end, "{said}");
    for cut in 5..whole.len() {
        let (_, said) = wrong(&whole[..cut]);
        assert!(said.contains("is cut"), "{said}");
        // A frame that is cut is told behind others, too.
        let (byte, said) = wrong(&[&whole, &whole[..cut]].concat());
        assert!(byte >= end, "{byte}: {said}");
    }
}

#[test]
fn a_wrong_checksum_is_told() {
    let whole = frame(&TWICE.concat());
    // Its checksum is the end of a frame.
    for at in 1..=4 {
        let mut bad = whole.clone();
        let byte = bad.len() - at;
        bad[byte] ^= 0x10;
        let (byte, said) = wrong(&[&bad[..], &whole].concat());
        assert_eq!(byte, bad.len() as u64, "{said}");
        assert!(said.contains("checksum"), "{said}");
    }
}
