//! Floats of the classes by which accuracy is measured.

use tvmtune_ir::dag::DType;
use tvmtune_plan::record::Class;

use crate::random::Random;

/// The distance of partners that cancel, and of neighbors in a cluster, relative to them.
const GAP: f64 = 1.0 / 65_536.0;
/// The share of outliers, and of special values.
const RARE: f64 = 1.0 / 64.0;

/// The floats of a class, in a type.
pub(super) struct Floats {
    class: Class,
    /// The exponents of huge numbers and of tiny ones.
    huge: (i32, i32),
    tiny: (i32, i32),
    /// The largest outlier.
    outlier: f64,
    /// The middle of a cluster: `exp` of it is large, and so are sums of many of these, but finite.
    center: f64,
}

impl Floats {
    pub(super) fn new(class: Class, dtype: DType) -> Self {
        let (huge, tiny) = match dtype {
            DType::F16 => ((2, 5), (-24, -12)),
            DType::Bf16 => ((20, 40), (-133, -120)),
            _ => ((20, 40), (-149, -120)),
        };
        let (outlier, center) = if dtype == DType::F16 { (1e4, 5.0) } else { (1e6, 60.0) };
        Self { class, huge, tiny, outlier, center }
    }

    /// Draws the element at a position.
    pub(super) fn draw(&self, n: usize, random: &mut Random) -> f64 {
        let mut uniform = || 2.0 * random.unit() - 1.0;
        match self.class {
            Class::Ordinary => uniform(),
            // The sum of twelve numbers of variance 1/12.
            Class::Normal => (0..12).map(|_| uniform() / 2.0).sum(),
            Class::Huge => with_exponent(self.huge, random),
            Class::Tiny => with_exponent(self.tiny, random),
            // Each second one is the partner of the one before, which is drawn from the position alone.
            Class::Cancelling => {
                let partner = Random::new((n / 2) as u64).unit() + 0.5;
                if n.is_multiple_of(2) { partner } else { -partner * (1.0 + GAP * uniform()) }
            }
            Class::Equal => 0.7,
            Class::Outliers => {
                let value = uniform();
                if random.chance(RARE) { value * self.outlier } else { value }
            }
            Class::Clustered => self.center * (1.0 + GAP * uniform()),
            Class::Special => {
                let value = uniform();
                let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0];
                if random.chance(RARE) { special[random.below(special.len())] } else { value }
            }
        }
    }
}

/// Draws a number of either sign whose exponent is as likely one as another.
fn with_exponent((least, most): (i32, i32), random: &mut Random) -> f64 {
    let exponent = f64::from(least) + random.unit() * f64::from(most - least);
    let sign = if random.chance(0.5) { 1.0 } else { -1.0 };
    sign * exponent.exp2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dag::Number;

    fn drawn(class: Class, dtype: DType) -> Vec<f64> {
        let (floats, mut random) = (Floats::new(class, dtype), Random::new(1));
        let value = |n| Number::Float(floats.draw(n, &mut random)).cast(dtype).to_f64();
        (0..2000).map(value).collect()
    }

    #[test]
    fn products_of_three_huge_ones_are_finite() {
        for (dtype, most) in [(DType::F32, f64::from(f32::MAX)), (DType::F16, 65504.0)] {
            let largest = drawn(Class::Huge, dtype).into_iter().fold(0.0, f64::max);
            assert!(largest.powi(3) < most && largest.powi(3) > most / 1e4, "{largest}");
        }
    }

    #[test]
    fn classes_are_what_they_say() {
        let f32s = |class| drawn(class, DType::F32);
        let n_where = |class, is: fn(&f64) -> bool| f32s(class).iter().filter(|it| is(it)).count();
        let smallest = f64::from(f32::MIN_POSITIVE);
        assert!(n_where(Class::Tiny, |it| *it != 0.0) > 1900);
        assert!(f32s(Class::Tiny).iter().filter(|it| it.abs() < smallest).count() > 1000);
        let pairs = f32s(Class::Cancelling);
        let left: Vec<f64> = pairs.chunks(2).map(|it| (it[0] + it[1]).abs()).collect();
        assert!(left.iter().all(|it| *it < 1e-4) && left.iter().any(|it| *it > 1e-6));
        assert!((10..60).contains(&n_where(Class::Outliers, |it| it.abs() > 1e3)));
        assert!(n_where(Class::Special, |it| !it.is_finite()) > 5);
        let variance = f32s(Class::Normal).iter().map(|it| it * it).sum::<f64>() / 2000.0;
        assert!((0.9..1.1).contains(&variance), "{variance}");
        assert!(drawn(Class::Clustered, DType::Bf16).iter().all(|it| (59.0..61.0).contains(it)));
    }
}
