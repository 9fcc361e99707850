//! Cost of one access of a warp: sectors of memory, wavefronts of shared memory.
//!
//! # Source
//!
//! Accesses of 8 and 16 bytes are served for halves and quarters of a warp; parts that touch each
//! bank at one word at most are served together (NVIDIA's Nsight Compute guide on wavefronts).

use std::collections::BTreeSet;

use super::machine::{BANK_BYTES, BANKS, LINE, SECTOR};

/// Addresses of the active lanes of a warp, in bytes.
pub(super) type Addresses = Vec<i64>;

/// Cycles for which a request to shared memory keeps its banks busy.
pub(super) fn wavefronts(addresses: &[i64], bytes: i64) -> f64 {
    let lanes = (BANKS * BANK_BYTES / bytes.max(1)).clamp(1, BANKS) as usize;
    let mut total = 0;
    let mut together = BTreeSet::new();
    for part in addresses.chunks(lanes) {
        let words = words(part, bytes);
        let both: BTreeSet<i64> = together.union(&words).copied().collect();
        if busiest(&both) > 1 {
            total += busiest(&together);
            together = words;
        } else {
            together = both;
        }
    }
    (total + busiest(&together)) as f64
}

fn words(addresses: &[i64], bytes: i64) -> BTreeSet<i64> {
    let touched = |at: &i64| at.div_euclid(BANK_BYTES)..=last(*at, bytes).div_euclid(BANK_BYTES);
    addresses.iter().flat_map(touched).collect()
}

/// The last byte of an access.
fn last(at: i64, bytes: i64) -> i64 {
    at.saturating_add(bytes.clamp(1, LINE) - 1)
}

/// Words of the bank that has most of them.
fn busiest(words: &BTreeSet<i64>) -> usize {
    let mut banks = [0; BANKS as usize];
    words.iter().for_each(|it| banks[it.rem_euclid(BANKS) as usize] += 1);
    banks.into_iter().max().unwrap_or(0)
}

/// Sectors and lines of memory that a request touches.
pub(super) fn sectors(addresses: &[i64], bytes: i64) -> (f64, f64) {
    let count = |piece: i64| {
        let touched = |at: &i64| at.div_euclid(piece)..=last(*at, bytes).div_euclid(piece);
        addresses.iter().flat_map(touched).collect::<BTreeSet<i64>>().len() as f64
    };
    (count(SECTOR), count(LINE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(at: impl Fn(i64) -> i64) -> Addresses {
        (0..32).map(at).collect()
    }

    #[test]
    fn wavefronts_are_the_words_of_the_busiest_bank() {
        let cases: [(&str, Addresses, i64, f64); 11] = [
            ("neighbors", lanes(|it| 4 * it), 4, 1.0),
            ("one word", lanes(|_| 64), 4, 1.0),
            ("bytes", lanes(|it| it), 1, 1.0),
            ("stride 2", lanes(|it| 8 * it), 4, 2.0),
            ("stride 32", lanes(|it| 128 * it), 4, 32.0),
            ("stride 33", lanes(|it| 132 * it), 4, 1.0),
            ("vectors of 8", lanes(|it| 8 * it), 8, 2.0),
            ("vectors of 16", lanes(|it| 16 * it), 16, 4.0),
            ("two vectors", lanes(|it| 16 * (it / 16)), 16, 1.0),
            ("16 vectors", lanes(|it| 16 * (it % 16)), 16, 4.0),
            ("columns of vectors", lanes(|it| 128 * it), 16, 32.0),
        ];
        for (name, addresses, bytes, expected) in cases {
            assert_eq!(wavefronts(&addresses, bytes), expected, "{name}");
        }
        assert_eq!(wavefronts(&[], 4), 0.0);
    }

    #[test]
    fn sectors_are_counted_once() {
        let check = |addresses: Addresses, bytes, expected| {
            assert_eq!(sectors(&addresses, bytes), expected);
        };
        check(lanes(|it| 4 * it), 4, (4.0, 1.0));
        check(lanes(|it| 4 * it + 16), 4, (5.0, 2.0));
        check(lanes(|it| 16 * it), 16, (16.0, 4.0));
        check(lanes(|it| 4096 * it), 4, (32.0, 32.0));
        check(lanes(|_| 0), 4, (1.0, 1.0));
        check(lanes(|it| i64::MAX - it), 16, (1.0, 1.0));
    }
}
