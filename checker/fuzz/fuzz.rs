//! Damaged histories for a given time, in JSON lines and EDN: no crash and no hang.
//!
//! Owns the damage. Must not know what is right: any verdict and any error will do. It needs neither nightly nor
//! libFuzzer, and knows nothing of coverage. Run: `cargo run -p fencepost-checker --example fuzz -- SECONDS [SEED]`.
//! An input that takes longer than five seconds, or panics, is written to a file that is named.
use fencepost_checker::{Options, check_with, to_edn};
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a damaged place may become.
const WORDS: [&str; 24] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "\\",
    "\n",
    ":",
    "#",
    "#_",
    "^",
    "18446744073709551616",
    "-1",
    "1e999",
    "null",
    "nil",
    ":info",
    "\"info\"",
    ":release",
    "\"extend\"",
    "\u{0}",
    "é",
];

/// splitmix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// A range within `length`, mostly short.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let most = if self.below(4) == 0 { length } else { 40 };
        (from, (from + self.below(most + 1)).min(length))
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let (from, to) = self.range(bytes.len());
        match self.below(6) {
            0 => drop(bytes.drain(from..to)),
            1 => {
                let copy = bytes[from..to].to_vec();
                let at = self.below(bytes.len() + 1);
                bytes.splice(at..at, copy);
            }
            2 => {
                let (a, b) = self.range(other.len());
                bytes.splice(from..to, other[a..b].iter().copied());
            }
            3 if from < bytes.len() => bytes[from] ^= 1 << self.below(8),
            4 => {
                let many = WORDS[self.below(WORDS.len())].repeat(1 + self.below(300));
                bytes.splice(from..from, many.into_bytes());
            }
            _ => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(from..to, word.bytes());
            }
        }
    }
}

fn corpus() -> std::io::Result<Vec<Vec<u8>>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut files: Vec<_> = std::fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    let mut texts: Vec<Vec<u8>> = Vec::new();
    for file in files {
        let text = std::fs::read(file.path())?;
        texts.extend(
            to_edn(text.as_slice(), &Options::default())
                .ok()
                .map(String::into_bytes),
        );
        texts.push(text);
    }
    Ok(texts)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(Ok(60), |s| s.parse())?;
    let seed: u64 = args.next().map_or(Ok(0), |s| s.parse())?;
    let corpus = corpus()?;
    let mut random = Random(seed);
    let (begin, mut inputs, mut judged) = (Instant::now(), 0u64, 0u64);
    let odd = Options {
        ttl_ms: Some(1),
        clock_uncertainty_ms: Some(0.5),
        ..Options::default()
    };
    while begin.elapsed() < Duration::from_secs(seconds) {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(8) {
            let other = &corpus[random.below(corpus.len())];
            random.damage(&mut bytes, other);
        }
        let once = Instant::now();
        let outcome = std::panic::catch_unwind(|| {
            let _ = check_with(bytes.as_slice(), &odd);
            check_with(bytes.as_slice(), &Options::default()).is_ok()
        });
        inputs += 1;
        judged += u64::from(matches!(outcome, Ok(true)));
        if outcome.is_err() || once.elapsed() > Duration::from_secs(5) {
            let path = std::env::temp_dir().join(format!("fencepost-fuzz-{seed}-{inputs}"));
            std::fs::write(&path, &bytes)?;
            return Err(format!("a crash or a hang: {}", path.display()).into());
        }
    }
    writeln!(
        std::io::stdout().lock(),
        "{inputs} inputs, {judged} judged, no crash, no hang"
    )?;
    Ok(())
}
