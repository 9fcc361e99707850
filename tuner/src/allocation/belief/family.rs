//! Families of curves that rise and level off.

use serde::{Deserialize, Serialize};

use super::points::Point;

/// A family of curves of the speed after `x` trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// `a / (1 + (x / e^b)^c)`, which rises to `a` for a negative `c`.
    #[default]
    LogPower,
    /// `a x^b`.
    Pow2,
    /// `c - a x^-b`.
    Pow3,
    /// `c - (a x + b)^-d`.
    Pow4,
    /// `a ln x + b`.
    LogLinear,
    /// `ln(a ln x + b)`.
    LogLogLinear,
}

impl Family {
    /// All families.
    pub const ALL: [Self; 6] =
        [Self::LogPower, Self::Pow2, Self::Pow3, Self::Pow4, Self::LogLinear, Self::LogLogLinear];

    /// Returns the speed after `e^ln_x` trials.
    pub fn value(self, ln_x: f64, parameters: &[f64]) -> f64 {
        match (self, parameters) {
            (Self::LogPower, [a, b, c, ..]) => a / (1.0 + (c * (ln_x - b)).exp()),
            (Self::Pow2, [a, b, ..]) => a * (b * ln_x).exp(),
            (Self::Pow3, [a, b, c, ..]) => c - a * (-b * ln_x).exp(),
            (Self::Pow4, [a, b, c, d, ..]) => c - (a * ln_x.exp() + b).powf(-d),
            (Self::LogLinear, [a, b, ..]) => a * ln_x + b,
            (Self::LogLogLinear, [a, b, ..]) => (a * ln_x + b).ln(),
            _ => f64::NAN,
        }
    }

    /// Returns the range of each parameter.
    fn ranges(self) -> &'static [(f64, f64)] {
        match self {
            Self::LogPower => &[(0.0, 100.0), (-12.0, 12.0), (-6.0, -0.02)],
            Self::Pow2 => &[(0.0, 10.0), (0.0, 2.0)],
            Self::Pow3 => &[(0.0, 100.0), (0.01, 5.0), (0.0, 100.0)],
            Self::Pow4 => &[(0.0, 100.0), (0.0, 100.0), (0.0, 100.0), (0.01, 5.0)],
            Self::LogLinear => &[(0.0, 10.0), (-10.0, 10.0)],
            Self::LogLogLinear => &[(0.0, 100.0), (0.0, 100.0)],
        }
    }

    /// Tells if all parameters are within their ranges.
    pub(super) fn is_inside(self, parameters: &[f64]) -> bool {
        let ranges = self.ranges();
        parameters.len() == ranges.len()
            && parameters.iter().zip(ranges).all(|(it, (lo, hi))| lo <= it && it <= hi)
    }

    /// Returns first guesses of parameters: curves through the last observation, from flat to steep.
    pub(super) fn guesses(self, points: &[Point], largest: f64) -> Vec<Vec<f64>> {
        let last = points.last().map_or(0.0, |it| it.ln_x);
        let tops = [1.0 + 0.02 * (largest - 1.0).min(1.0), 1.0 + 0.2 * (largest - 1.0).min(1.0)];
        let guess = |top: f64| -> Vec<Vec<f64>> {
            let rest = top - 1.0 + 1e-3;
            match self {
                Self::LogPower => [-0.5_f64, -2.0]
                    .iter()
                    .map(|c| vec![top + 1e-3, last - (rest / 1.0).ln() / c, *c])
                    .collect(),
                Self::Pow2 => {
                    [0.02_f64, 0.3].iter().map(|b| vec![1.001 * (-b * last).exp(), *b]).collect()
                }
                Self::Pow3 => [0.3_f64, 1.0]
                    .iter()
                    .map(|b| vec![rest * (b * last).exp().min(1e2), *b, top + 1e-3])
                    .collect(),
                Self::Pow4 => [0.3_f64, 1.0]
                    .iter()
                    .map(|d| vec![rest.powf(-1.0 / d) / last.exp().max(1.0), 0.1, top + 1e-3, *d])
                    .collect(),
                Self::LogLinear => {
                    [0.01_f64, 0.1].iter().map(|a| vec![*a, 1.001 - a * last]).collect()
                }
                Self::LogLogLinear => [0.01_f64, 0.2]
                    .iter()
                    .map(|a| vec![*a, std::f64::consts::E * 1.001 - a * last])
                    .collect(),
            }
        };
        tops.into_iter().flat_map(guess).collect()
    }
}
