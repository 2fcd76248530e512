//! The grants of the control lock `perfect`: the driver itself says who holds.
//!
//! Owns a table key → holder. Must not know servers. A grant stands until its release or until the driver saw its
//! client die, so exclusion holds by construction: a checker that finds anything in such a run is wrong.
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Who holds which key.
#[derive(Default)]
pub struct Grants(RefCell<BTreeMap<String, (String, u32)>>);

impl Grants {
    /// Takes the key for a worker, if it is free.
    pub fn take(&self, key: &str, client: &str, worker: u32) -> bool {
        let mut table = self.0.borrow_mut();
        if table.contains_key(key) {
            return false;
        }
        table.insert(key.to_owned(), (client.to_owned(), worker));
        true
    }

    /// Gives the key back.
    pub fn free(&self, key: &str, client: &str, worker: u32) {
        let mut table = self.0.borrow_mut();
        if table
            .get(key)
            .is_some_and(|(c, w)| c == client && *w == worker)
        {
            table.remove(key);
        }
    }

    /// Gives back all that a dead client held.
    pub fn died(&self, client: &str) {
        self.0.borrow_mut().retain(|_, (c, _)| c != client);
    }
}

#[cfg(test)]
mod tests {
    use super::Grants;

    #[test]
    fn a_key_has_one_holder_until_release_or_death() {
        let grants = Grants::default();
        assert!(grants.take("k", "c1", 0));
        assert!(!grants.take("k", "c2", 0));
        grants.free("k", "c2", 0);
        assert!(!grants.take("k", "c2", 0), "only the holder gives back");
        grants.free("k", "c1", 0);
        assert!(grants.take("k", "c2", 0));
        grants.died("c2");
        assert!(grants.take("k", "c1", 0));
    }
}
