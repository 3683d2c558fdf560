//! Counts distinct hashes in little memory: HyperLogLog.

/// How many bits of a hash choose a register.
const INDEX_BITS: u32 = 12;
const REGISTERS: usize = 1 << INDEX_BITS;
/// Corrects the bias of the estimate, for this number of registers.
const BIAS: f64 = 0.7213 / (1.0 + 1.079 / 4_096.0);
/// Up to this multiple of the registers, the number of empty ones gives a better estimate.
const SMALL_FACTOR: f64 = 2.5;

/// An estimate of how many different hashes were added, with a standard error of 1.6 %.
pub(super) struct Sketch {
    /// The most leading zeros, plus 1, among the hashes of each register.
    registers: Vec<u8>,
}

impl Default for Sketch {
    fn default() -> Self {
        Self {
            registers: vec![0; REGISTERS],
        }
    }
}

impl Sketch {
    pub(super) fn add(&mut self, hash: u64) {
        let [first, second, ..] = hash.to_be_bytes().map(usize::from);
        let index = (first << 4) | (second >> 4);
        let zeros = (hash << INDEX_BITS)
            .leading_zeros()
            .min(u64::BITS - INDEX_BITS);
        let rank = u8::try_from(zeros + 1).unwrap_or(u8::MAX);
        self.registers[index] = self.registers[index].max(rank);
    }

    /// How many different hashes were added.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rounded count, which is not negative"
    )]
    pub(super) fn estimate(&self) -> u64 {
        let registers = f64::from(1_u32 << INDEX_BITS);
        let ranks = || self.registers.iter().copied();
        let sum: f64 = ranks().map(|rank| 0.5_f64.powi(i32::from(rank))).sum();
        let estimate = BIAS * registers * registers / sum;
        let empty: u32 = ranks().map(|rank| u32::from(rank == 0)).sum();
        let estimate = if empty > 0 && estimate <= SMALL_FACTOR * registers {
            registers * (registers / f64::from(empty)).ln()
        } else {
            estimate
        };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    #[test]
    fn the_estimate_is_close_however_often_hashes_are_added() {
        for count in [0_u64, 1, 10, 1_000, 5_000, 20_000, 300_000] {
            let mut sketch = Sketch::default();
            for _ in 0..2 {
                for number in 0..count {
                    sketch.add(xxh3_64(&number.to_le_bytes()));
                }
            }
            let estimate = sketch.estimate();
            assert!(
                estimate.abs_diff(count) <= count / 20,
                "{estimate} for {count}"
            );
        }
    }
}
