//! Strings that occur again and again (keys, clients, owner values, nodes) as numbers, so that a section stays small.
//!
//! Owns the arena of strings. Must not know what they mean. Numbers go to every other file; texts come back only
//! when a finding is written.
use crate::hash::{Map, Secret};
use std::hash::BuildHasher;

/// A string's number.
pub(crate) type Name = u32;
/// No string.
pub(crate) const NONE: Name = u32::MAX;

/// Strings by number and numbers by string: one allocation for all texts, about 25 bytes a string beside its text.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    /// End of each text in `text`; it starts where the one before it ends.
    ends: Vec<usize>,
    /// The last string with a hash value; `older` leads on to the others that have it.
    newest: Map<u64, Name>,
    older: Vec<Name>,
    hash: Secret,
}

impl Names {
    /// The number of `text`, a new one if it was never seen.
    pub(crate) fn number(&mut self, text: &str) -> Name {
        let hash = self.hash.hash_one(text);
        let head = self.newest.get(&hash).copied().unwrap_or(NONE);
        let mut at = head;
        while at != NONE {
            if self.text(at) == text {
                return at;
            }
            at = self.older[at as usize];
        }
        let number = self.ends.len() as Name;
        self.text.push_str(text);
        self.ends.push(self.text.len());
        self.older.push(head);
        self.newest.insert(hash, number);
        number
    }

    /// The number of `text`, if it was ever seen.
    pub(crate) fn find(&self, text: &str) -> Option<Name> {
        let hash = self.hash.hash_one(text);
        let mut at = self.newest.get(&hash).copied().unwrap_or(NONE);
        while at != NONE && self.text(at) != text {
            at = self.older[at as usize];
        }
        (at != NONE).then_some(at)
    }

    /// As [`Self::number`]; [`NONE`] for none.
    pub(crate) fn optional(&mut self, text: Option<&str>) -> Name {
        text.map_or(NONE, |t| self.number(t))
    }

    /// The text of a number; empty for [`NONE`].
    pub(crate) fn text(&self, name: Name) -> &str {
        let i = name as usize;
        let Some(&end) = self.ends.get(i) else {
            return "";
        };
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..end]
    }

    /// The text of a number, none for [`NONE`].
    pub(crate) fn get(&self, name: Name) -> Option<&str> {
        (name != NONE).then(|| self.text(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let mut names = Names::default();
        let numbers: Vec<Name> = (0..1000).map(|i| names.number(&format!("k{i}"))).collect();
        for (i, n) in numbers.iter().enumerate() {
            assert_eq!(names.text(*n), format!("k{i}"));
            assert_eq!(names.number(&format!("k{i}")), *n);
        }
        assert_eq!(names.number(""), names.number(""));
        assert_eq!(names.get(NONE), None);
    }
}
