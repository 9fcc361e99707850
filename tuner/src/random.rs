//! A seeded generator of pseudorandom numbers, owned by its user: the same seed gives the same numbers
//! on every machine.
//!
//! # Source
//!
//! `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).

/// A stream of pseudorandom numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Creates an independent stream for each number: results do not depend on the order of draws.
    pub fn fork(&self, n: u64) -> Self {
        let mut child = Self { state: self.state ^ n.wrapping_mul(0xd134_2543_de82_ef95) };
        child.bits();
        child
    }

    /// Draws 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number in `0..n`.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "nothing to choose from");
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Draws a number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws true with that probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_forks_differ() {
        let draw = |mut it: Random| (0..8).map(|_| it.below(1000)).collect::<Vec<_>>();
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::new(7).fork(0)), draw(Random::new(7).fork(1)));
    }

    #[test]
    fn every_number_below_a_bound_comes_up() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|it| (120..280).contains(it)), "{seen:?}");
    }
}
