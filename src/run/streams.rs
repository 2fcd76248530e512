//! One seed a run, and named random streams drawn from it.
//!
//! Owns how a seed becomes numbers, so that one draw more in one stream does not move another.
//! Must not know what the numbers are for.
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The stream `name` of `seed`: xoshiro256++ (Blackman and Vigna, 2019), seeded by `SplitMix64` over an FNV-1a hash of
/// the name mixed with the seed.
pub fn stream(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in seed.to_le_bytes().into_iter().chain(name.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    Xoshiro256PlusPlus::seed_from_u64(hash)
}

/// The seed of repetition `n` (from 0) of a run: consecutive, so that each can be replayed by `--seed`.
pub fn repetition(seed: u64, n: u64) -> u64 {
    seed.wrapping_add(n)
}

#[cfg(test)]
mod tests {
    use super::stream;
    use rand::Rng;

    #[test]
    fn streams_are_equal_by_name_and_seed_and_differ_otherwise() {
        let draw = |seed, name| stream(seed, name).random::<u64>();
        assert_eq!(draw(7, "faults"), draw(7, "faults"));
        assert_ne!(draw(7, "faults"), draw(7, "workload"));
        assert_ne!(draw(7, "faults"), draw(8, "faults"));
    }
}
