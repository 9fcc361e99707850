//! The peaks of a machine: what its key does not tell, as virtual machines hide it.

use serde::{Deserialize, Serialize};

/// The peaks of a machine, as measured: it computes and moves no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peaks {
    /// Arithmetic on `f32` in products of small matrices, by all threads, in GFLOP/s: a multiply-add
    /// counts twice.
    pub product_gflops: f64,
    /// Bandwidth of one core to its first-level cache, in GB/s read and written.
    pub l1_gbps: f64,
    /// Bandwidth of one core to its second-level cache.
    pub l2_gbps: f64,
    /// Bandwidth of all threads to the last-level cache.
    pub l3_gbps: f64,
    /// Bandwidth of all threads to memory.
    pub memory_gbps: f64,
}

/// The largest ratio of the arithmetic, and of the bandwidths, of machines of one kind. Another vector
/// width makes a factor of two; clocks differ by less, and neighbors on a host take a part of the
/// bandwidth.
const SAME_PRODUCTS: f64 = 1.5;
const SAME_BANDWIDTH: f64 = 2.0;

impl Peaks {
    /// Returns whether both may be of one kind of machine.
    pub fn is_like(&self, other: &Self) -> bool {
        let near = |a: f64, b: f64, limit: f64| (1.0 / limit..=limit).contains(&(a / b));
        let bandwidths = self.bandwidths().into_iter().zip(other.bandwidths());
        near(self.product_gflops, other.product_gflops, SAME_PRODUCTS)
            && bandwidths.into_iter().all(|(a, b)| near(a, b, SAME_BANDWIDTH))
    }

    /// Returns whether all are positive numbers.
    pub(crate) fn is_possible(&self) -> bool {
        let mut all = self.bandwidths().into_iter().chain([self.product_gflops]);
        all.all(|it| it.is_finite() && it > 0.0)
    }

    fn bandwidths(&self) -> [f64; 4] {
        [self.l1_gbps, self.l2_gbps, self.l3_gbps, self.memory_gbps]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_half_the_width_is_another_one() {
        let one = Peaks {
            product_gflops: 200.0,
            l1_gbps: 400.0,
            l2_gbps: 150.0,
            l3_gbps: 60.0,
            memory_gbps: 20.0,
        };
        assert!(one.is_like(&one));
        assert!(one.is_like(&Peaks { product_gflops: 150.0, memory_gbps: 12.0, ..one }));
        assert!(!one.is_like(&Peaks { product_gflops: 100.0, ..one }));
        assert!(!one.is_like(&Peaks { product_gflops: 380.0, ..one }));
        assert!(!one.is_like(&Peaks { memory_gbps: 60.0, ..one }));
        assert!(!Peaks { l3_gbps: f64::NAN, ..one }.is_possible());
        assert!(one.is_possible());
    }
}
