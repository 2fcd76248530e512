//! A fast hash for small keys, with a secret of its own in each process, so that no history can be made to collide.
//!
//! Owns the arithmetic: one folded multiplication a word, after wyhash (Wang Yi, 2019). Must not know what is hashed.
use std::collections::{HashMap, hash_map::RandomState};
use std::hash::{BuildHasher, Hasher};

/// A map with the fast hash.
pub(crate) type Map<K, V> = HashMap<K, V, Secret>;

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes hashers; each map has its own secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Secret(u64);

impl Default for Secret {
    fn default() -> Self {
        Self(RandomState::new().hash_one(ODD) | 1)
    }
}

impl BuildHasher for Secret {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded {
            state: self.0,
            secret: self.0,
        }
    }
}

/// A hash in the making.
#[derive(Debug)]
pub(crate) struct Folded {
    state: u64,
    secret: u64,
}

impl Folded {
    fn add(&mut self, word: u64) {
        let product = u128::from(self.state ^ word).wrapping_mul(u128::from(self.secret ^ ODD | 1));
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(ODD);
    }
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add(word.try_into().map_or(0, u64::from_le_bytes));
        }
        let rest = words.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last) ^ (bytes.len() as u64) << 56);
    }

    fn write_u8(&mut self, n: u8) {
        self.add(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.add(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.add(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.add(n as u64);
    }

    fn write_isize(&mut self, n: isize) {
        self.add(n as u64);
    }
}
