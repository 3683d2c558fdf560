//! A small random generator with a seed, so that a failing test can be repeated: splitmix64 (Steele, Lea and
//! Flood, "Fast splittable pseudorandom number generators", 2014).
//!
//! How many random cases tests play, and which ones, is set for all of them at once: `STANDINGS_TEST_DEPTH` plays that many times as many
//! cases (`make soak`), and `STANDINGS_TEST_SEED` plays others. A test that fails shows its seed.

use std::str::FromStr;

/// A setting of the tests; `otherwise` where it is not set.
pub fn from_environment<T: FromStr>(name: &str, otherwise: T) -> T {
    let Ok(value) = std::env::var(name) else {
        return otherwise;
    };
    let parsed = value.parse();
    parsed.unwrap_or_else(|_| panic!("{name}={value} can't be read"))
}

/// The number of random cases where this one is usual.
pub fn case_count(usual: usize) -> usize {
    usual * from_environment("STANDINGS_TEST_DEPTH", 1)
}

/// The seed of a test, or case, that has this number: with each `STANDINGS_TEST_SEED` another one.
#[expect(clippy::print_stdout, reason = "only a test that fails shows it")]
pub fn seed(number: u64) -> u64 {
    let seed: u64 = from_environment("STANDINGS_TEST_SEED", 0);
    println!("STANDINGS_TEST_SEED={seed}");
    number ^ (seed << 20)
}

/// Of many cases each of which is worth a look, about one in so many: with each `STANDINGS_TEST_SEED` others, and all of them in
/// `make soak`.
pub fn some_of<T>(cases: impl IntoIterator<Item = T>, one_in: usize) -> impl Iterator<Item = T> {
    let (step, first) = if case_count(1) > 1 {
        (1, 0)
    } else {
        (one_in, Random::new(seed(0)).below(one_in))
    };
    cases.into_iter().skip(first).step_by(step)
}

/// The generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// Puts a list into a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for index in (1..list.len()).rev() {
            list.swap(index, self.below(index + 1));
        }
    }
}
