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

/// Strings by number and numbers by string, about 45 bytes a string beside its text. Those that come and go have their
/// numbers used again.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Box<str>>,
    /// The last string with a hash value; `older` leads on to the others that have it.
    newest: Map<u64, Name>,
    older: Vec<Name>,
    hash: Secret,
    /// Numbers that were forgotten.
    free: Vec<Name>,
}

impl Names {
    /// The number of `text`, a new one if it was never seen.
    pub(crate) fn number(&mut self, text: &str) -> Name {
        self.found(text).unwrap_or_else(|hash| {
            let number = self.texts.len() as Name;
            self.texts.push(Box::default());
            self.older.push(NONE);
            self.put(number, text, hash)
        })
    }

    /// As [`Self::number`], of a text that may be forgotten; [`NONE`] for none.
    pub(crate) fn passing(&mut self, text: Option<&str>) -> Name {
        let Some(text) = text else {
            return NONE;
        };
        match (self.found(text), self.free.pop()) {
            (Err(hash), Some(number)) => self.put(number, text, hash),
            (Ok(number), Some(unused)) => {
                self.free.push(unused);
                number
            }
            (_, None) => self.number(text),
        }
    }

    /// Forgets a text: from now on its number may be that of another.
    pub(crate) fn forget(&mut self, number: Name) {
        let hash = self.hash.hash_one(self.text(number));
        let next = self.older[number as usize];
        let head = self.newest.get(&hash).copied().unwrap_or(NONE);
        if head == number {
            if next == NONE {
                self.newest.remove(&hash);
            } else {
                self.newest.insert(hash, next);
            }
        } else {
            let mut at = head;
            while at != NONE && self.older[at as usize] != number {
                at = self.older[at as usize];
            }
            if at == NONE {
                return; // It was forgotten before.
            }
            self.older[at as usize] = next;
        }
        self.texts[number as usize] = Box::default();
        self.free.push(number);
    }

    /// The number of a text, or its hash.
    fn found(&self, text: &str) -> Result<Name, u64> {
        let hash = self.hash.hash_one(text);
        let mut at = self.newest.get(&hash).copied().unwrap_or(NONE);
        while at != NONE {
            if self.text(at) == text {
                return Ok(at);
            }
            at = self.older[at as usize];
        }
        Err(hash)
    }

    fn put(&mut self, number: Name, text: &str, hash: u64) -> Name {
        self.texts[number as usize] = text.into();
        self.older[number as usize] = self.newest.insert(hash, number).unwrap_or(NONE);
        number
    }

    /// As [`Self::number`]; [`NONE`] for none.
    pub(crate) fn optional(&mut self, text: Option<&str>) -> Name {
        text.map_or(NONE, |t| self.number(t))
    }

    /// The text of a number; empty for [`NONE`].
    pub(crate) fn text(&self, name: Name) -> &str {
        self.texts.get(name as usize).map_or("", AsRef::as_ref)
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

    #[test]
    fn what_comes_and_goes_takes_no_more_room() {
        let mut names = Names::default();
        let stays: Vec<Name> = (0..100).map(|i| names.number(&format!("k{i}"))).collect();
        for i in 0..10_000 {
            let owner = names.passing(Some(&format!("v{i}")));
            assert_eq!(names.passing(Some(&format!("v{i}"))), owner);
            assert_eq!(names.text(owner), format!("v{i}"));
            names.forget(owner);
            names.forget(owner);
            assert!(owner < 102, "{owner}");
        }
        for (i, n) in stays.iter().enumerate() {
            assert_eq!(names.number(&format!("k{i}")), *n);
        }
        assert!(names.number("new") > 100);
    }
}
