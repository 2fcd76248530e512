//! A command as the tap sees it: its bytes, its words, and how it goes on record.
//!
//! Owns the reading of words and the shortened text. Must not know rules or pairing.
use super::scan::Shape;
use bytes::Bytes;
use sha1::{Digest, Sha1};

/// Longest text of a message on record, and of one word in it, in bytes.
const TEXT_MAX: usize = 240;
const WORD_MAX: usize = 64;

/// A command, or the head of a long one.
#[derive(Debug, Clone)]
pub struct Command {
    bytes: Bytes,
    shape: Shape,
    /// First word in capitals; empty for a blank line.
    pub name: String,
}

impl Command {
    /// From its bytes.
    pub fn new(bytes: Bytes, shape: Shape) -> Self {
        let mut command = Self {
            bytes,
            shape,
            name: String::new(),
        };
        command.name = String::from_utf8_lossy(command.word(0)).to_ascii_uppercase();
        command
    }

    /// Number of words.
    pub fn count(&self) -> usize {
        self.shape.count
    }

    /// A word; empty where there is none (or where it lies beyond the head of a long command).
    pub fn word(&self, n: usize) -> &[u8] {
        let place = self.shape.parts.get(n).cloned().unwrap_or_default();
        let end = place.end.min(self.bytes.len());
        self.bytes
            .get(place.start.min(end)..end)
            .unwrap_or_default()
    }

    /// Its words, as far as their places are noted.
    pub fn words(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.shape.parts.len()).map(|n| self.word(n))
    }

    /// Whether word `n` is this one, in any case.
    pub fn says(&self, n: usize, what: &str) -> bool {
        self.word(n).eq_ignore_ascii_case(what.as_bytes())
    }

    /// The script that it brings along: the text in EVAL and SCRIPT LOAD.
    pub fn script(&self) -> Option<&[u8]> {
        match self.name.as_str() {
            "EVAL" | "EVAL_RO" => Some(self.word(1)),
            "SCRIPT" if self.says(1, "LOAD") => Some(self.word(2)),
            _ => None,
        }
    }

    /// The script's sha1 that it names or, of a text, has.
    pub fn sha(&self) -> Option<String> {
        match self.name.as_str() {
            "EVALSHA" | "EVALSHA_RO" => {
                Some(String::from_utf8_lossy(self.word(1)).to_ascii_lowercase())
            }
            _ => self.script().map(sha1),
        }
    }

    /// As it goes on record: words separated by spaces, long ones cut, a script by its sha1.
    pub fn text(&self) -> String {
        let script = match self.name.as_str() {
            "EVAL" | "EVAL_RO" => 1,
            "SCRIPT" if self.says(1, "LOAD") => 2,
            _ => usize::MAX,
        };
        let mut text = String::new();
        for (n, word) in self.words().enumerate() {
            if n > 0 {
                text.push(' ');
            }
            if n == script {
                text.push_str("sha1:");
                text.push_str(&sha1(word));
            } else {
                push_cut(&mut text, word, WORD_MAX);
            }
            if text.len() > TEXT_MAX {
                text.push('…');
                break;
            }
        }
        text
    }
}

/// A reply as it goes on record: its bytes on one line, cut.
pub fn reply_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    push_cut(&mut text, bytes.trim_ascii_end(), TEXT_MAX);
    text.replace("\r\n", " ")
}

fn push_cut(text: &mut String, word: &[u8], most: usize) {
    if word.len() <= most {
        text.push_str(&String::from_utf8_lossy(word));
    } else {
        text.push_str(&String::from_utf8_lossy(&word[..most]));
        text.push('…');
    }
}

/// The sha1 of a script, as EVALSHA names it.
pub fn sha1(text: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = Sha1::digest(text);
    digest.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tap::scan::{Scan, Side};

    pub fn command(bytes: &'static [u8]) -> Command {
        let mut scan = Scan::new(Side::Requests);
        assert_eq!(scan.take(bytes).expect("RESP"), (bytes.len(), true));
        Command::new(Bytes::from_static(bytes), scan.begin())
    }

    #[test]
    fn a_script_goes_on_record_by_its_sha() {
        let eval = command(b"*4\r\n$4\r\neval\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$1\r\nk\r\n");
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(eval.sha().as_deref(), Some(sha));
        assert_eq!(eval.text(), format!("eval sha1:{sha} 1 k"));
        assert_eq!(eval.name, "EVAL");
    }

    #[test]
    fn long_words_are_cut() {
        let long = format!("*2\r\n$3\r\nGET\r\n$100\r\n{}\r\n", "é".repeat(50));
        let text = command(Box::leak(long.into_boxed_str()).as_bytes()).text();
        assert!(text.len() < 80 && text.ends_with('…'), "{text}");
        assert_eq!(reply_text(b"*1\r\n$2\r\nab\r\n"), "*1 $2 ab");
    }
}
