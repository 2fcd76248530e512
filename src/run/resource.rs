//! The protected resource: what the lock is there to protect, kept by the driver.
//!
//! Owns versions, the fence and their atomic check. Must not know locks or faults. Each access becomes an effect in
//! the history, in the order of acceptance.
//!
//! Check and write are one step (the harness is one thread and this code does not wait). A token less than the
//! highest seen is refused, an equal one is accepted, since it may be a retry; lock-theory's fine print.
use fencepost_checker::Fence;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What the lock protects: a version a key, with or without a fence.
pub struct Resource {
    fence: Fence,
    cells: RefCell<BTreeMap<String, Cell>>,
}

#[derive(Default, Clone, Copy)]
struct Cell {
    version: u64,
    highest: u64,
}

/// A fence turned an access down: a higher token was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("token {given} is below {highest}, which was seen before")]
pub struct Stale {
    /// The token that came with the access.
    pub given: u64,
    /// The highest token seen.
    pub highest: u64,
}

impl Resource {
    /// An empty resource: each key at version 0.
    pub fn new(fence: Fence) -> Self {
        Self {
            fence,
            cells: RefCell::default(),
        }
    }

    /// Reads the version. Under a fence on first access the read registers its token, and a stale one is refused.
    ///
    /// # Errors
    /// [`Stale`], and then nothing has changed.
    pub fn read(&self, key: &str, token: Option<u64>) -> Result<u64, Stale> {
        let mut cells = self.cells.borrow_mut();
        let cell = cells.entry(key.to_owned()).or_default();
        if self.fence == Fence::FirstAccess {
            pass(cell, token)?;
        }
        Ok(cell.version)
    }

    /// Writes `version`. Under either fence a stale token is refused.
    ///
    /// # Errors
    /// [`Stale`], and then nothing has changed.
    pub fn write(&self, key: &str, version: u64, token: Option<u64>) -> Result<(), Stale> {
        let mut cells = self.cells.borrow_mut();
        let cell = cells.entry(key.to_owned()).or_default();
        if self.fence != Fence::None {
            pass(cell, token)?;
        }
        cell.version = version;
        Ok(())
    }
}

/// The fence proper. An access without a token cannot be told from a stale one, so it counts as token 0.
fn pass(cell: &mut Cell, token: Option<u64>) -> Result<(), Stale> {
    let given = token.unwrap_or(0);
    if given < cell.highest {
        return Err(Stale {
            given,
            highest: cell.highest,
        });
    }
    cell.highest = given;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Resource, Stale};
    use fencepost_checker::Fence;

    #[test]
    fn a_fence_on_first_access_refuses_a_stale_write_after_a_later_read() {
        let resource = Resource::new(Fence::FirstAccess);
        assert_eq!(resource.read("k", Some(1)), Ok(0));
        assert_eq!(resource.read("k", Some(2)), Ok(0));
        assert_eq!(
            resource.write("k", 1, Some(1)),
            Err(Stale {
                given: 1,
                highest: 2
            })
        );
        assert_eq!(resource.write("k", 1, Some(2)), Ok(()));
        assert_eq!(resource.read("k", Some(2)), Ok(1));
    }

    #[test]
    fn a_fence_on_write_lets_the_first_access_hole_through() {
        let resource = Resource::new(Fence::Write);
        assert_eq!(resource.read("k", Some(2)), Ok(0));
        assert_eq!(resource.write("k", 1, Some(1)), Ok(()));
        assert_eq!(resource.write("k", 1, Some(2)), Ok(()));
        assert_eq!(
            resource.write("k", 2, Some(1)),
            Err(Stale {
                given: 1,
                highest: 2
            })
        );
    }

    #[test]
    fn without_a_fence_everything_passes() {
        let resource = Resource::new(Fence::None);
        assert_eq!(resource.write("k", 5, Some(9)), Ok(()));
        assert_eq!(resource.write("k", 3, Some(1)), Ok(()));
        assert_eq!(resource.read("k", None), Ok(3));
    }
}
