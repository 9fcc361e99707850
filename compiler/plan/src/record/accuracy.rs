//! Certificates of accuracy: how far the results of a schedule are from exact ones.
//!
//! In: errors that the tuner measured, one [`Errors`] for each [`Class`] of arguments. Out: lines of a
//! record, which `cargo tvmtune status --accuracy` shows, and by which a less accurate record is told
//! from the one that it would replace.
//!
//! # Units
//!
//! An error is a multiple of the distance by which a result moves if each operation of its program rounds
//! once, in `f32`, halves where the program has halves. Errors of ill-conditioned results and of others
//! compare in this unit: sums of `n` random terms have errors of about the square root of `n`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use super::{Bucket, Record};
use serde::{Deserialize, Serialize};

/// The factor and the number of roundings by which errors exceed those of another schedule before it counts
/// as more accurate: orders of summation differ by less, and lost precision by more.
const MAX_RATIO: f64 = 2.0;
const MAX_DIFFERENCE: f64 = 16.0;

/// A class of floats that arguments are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The numbers that schedules are tuned with: in -1..1, positive ones where a sum divides.
    Ordinary,
    /// Normally distributed.
    Normal,
    /// Large numbers, of which products of three overflow no `f32`.
    Huge,
    /// Denormal numbers, and the smallest normal ones.
    Tiny,
    /// Pairs that almost cancel.
    Cancelling,
    /// Equal numbers.
    Equal,
    /// Numbers of which a few are a million times as large as the others.
    Outliers,
    /// Numbers that are close together, where `exp` is large.
    Clustered,
    /// Infinities, NaNs and zeros of both signs among others.
    Special,
}

/// The errors of results on arguments of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The largest, in roundings. See the [module documentation](self).
    pub worst: f64,
    /// The median.
    pub typical: f64,
    /// The results that are infinite or no number where they should not be, the reverse, or further away than
    /// the tolerance of the program allows.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wrong: u32,
}

/// The errors of a schedule, by class. See the [module documentation](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Accuracy(pub BTreeMap<Class, Errors>);

/// A class of arguments on which one schedule is less accurate than another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// The class.
    pub class: Class,
    /// The errors of the more accurate schedule.
    pub before: Errors,
    /// The errors of the other one.
    pub after: Errors,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 9] = [
        Class::Ordinary,
        Class::Normal,
        Class::Huge,
        Class::Tiny,
        Class::Cancelling,
        Class::Equal,
        Class::Outliers,
        Class::Clustered,
        Class::Special,
    ];

    /// The word for it in records and tables.
    pub fn name(self) -> &'static str {
        match self {
            Class::Ordinary => "ordinary",
            Class::Normal => "normal",
            Class::Huge => "huge",
            Class::Tiny => "tiny",
            Class::Cancelling => "cancelling",
            Class::Equal => "equal",
            Class::Outliers => "outliers",
            Class::Clustered => "clustered",
            Class::Special => "special",
        }
    }
}

impl Accuracy {
    /// Returns the class on which a schedule with this accuracy loses most of what another one has; `None` if
    /// it is about as accurate on all classes that both were measured on.
    pub fn loss_from(&self, before: &Accuracy) -> Option<Loss> {
        let both = before.0.iter().filter_map(|(class, before)| {
            let after = self.0.get(class)?;
            Some(Loss { class: *class, before: *before, after: *after })
        });
        both.filter(Loss::is_one).max_by(Loss::by_severity)
    }

    /// Returns the class on which a schedule with this accuracy has most results that are wrong where those of
    /// another one are right.
    pub fn wrong_beside(&self, other: &Accuracy) -> Option<Loss> {
        let both = other.0.iter().filter_map(|(class, before)| {
            let after = self.0.get(class).filter(|it| it.wrong > before.wrong)?;
            Some(Loss { class: *class, before: *before, after: *after })
        });
        both.max_by(Loss::by_severity)
    }

    /// Returns the class of the largest errors.
    pub fn worst(&self) -> Option<(Class, Errors)> {
        let all = self.0.iter().map(|(class, errors)| (*class, *errors));
        all.max_by(|(_, a), (_, b)| a.by_severity(b))
    }

    /// Checks that errors are numbers that can be.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_error = |it: f64| it.is_finite() && it >= 0.0;
        match self.0.values().all(|it| is_error(it.worst) && is_error(it.typical)) {
            true => Ok(()),
            false => Err("`accuracy` is not of errors"),
        }
    }
}

impl Record {
    /// Returns the greatest loss of accuracy where this record takes the place of another one: of the best
    /// schedule of each bucket and platform.
    pub fn loss_of_accuracy(&self, before: &Record) -> Option<Loss> {
        let of_bucket = |bucket: &Bucket| {
            let known = before.bucket(&bucket.dims)?;
            let losses = bucket.schedules.iter().filter_map(|it| {
                let is_best = bucket.best(it.platform).is_some_and(|best| std::ptr::eq(best, it));
                let known = known.best(it.platform)?.accuracy.as_ref()?;
                it.accuracy.as_ref().filter(|_| is_best)?.loss_from(known)
            });
            losses.max_by(Loss::by_severity)
        };
        self.buckets.iter().filter_map(of_bucket).max_by(Loss::by_severity)
    }
}

impl Errors {
    /// Compares two by their wrong results, then by their largest errors.
    pub fn by_severity(&self, other: &Errors) -> Ordering {
        self.wrong.cmp(&other.wrong).then(self.worst.total_cmp(&other.worst))
    }
}

impl Loss {
    fn by_severity(&self, other: &Loss) -> Ordering {
        self.after.by_severity(&other.after)
    }

    fn is_one(&self) -> bool {
        let Self { before, after, .. } = self;
        let most = (before.worst * MAX_RATIO).max(before.worst + MAX_DIFFERENCE);
        after.wrong > before.wrong || after.worst > most
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worst, typical, wrong } = self;
        write!(f, "{} ({})", short(*worst), short(*typical))?;
        if *wrong > 0 { write!(f, ", {wrong} wrong") } else { Ok(()) }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, before, after } = self;
        if after.wrong > before.wrong {
            let (now, then) = (after.wrong, before.wrong);
            return write!(f, "{now} wrong results on {class} numbers, in place of {then}");
        }
        let (now, then) = (short(after.worst), short(before.worst));
        write!(f, "errors of {now} roundings on {class} numbers, in place of {then}")
    }
}

/// Formats an error with two digits or more.
fn short(error: f64) -> String {
    match error {
        it if it < 10.0 => format!("{it:.1}"),
        it if it < 1e6 => format!("{it:.0}"),
        it => format!("{it:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(errors: [(Class, f64, u32); 2]) -> Accuracy {
        let errors = errors
            .map(|(class, worst, wrong)| (class, Errors { worst, typical: worst / 4.0, wrong }));
        Accuracy(errors.into_iter().collect())
    }

    #[test]
    fn a_loss_is_more_than_another_order_of_summation_makes() {
        let known = accuracy([(Class::Ordinary, 4.0, 0), (Class::Huge, 30.0, 0)]);
        let loss = |ordinary, huge, wrong| {
            let it = accuracy([(Class::Ordinary, ordinary, wrong), (Class::Huge, huge, 0)]);
            it.loss_from(&known).map(|it| it.class)
        };
        assert_eq!(loss(19.0, 59.0, 0), None);
        assert_eq!(loss(21.0, 30.0, 0), Some(Class::Ordinary));
        assert_eq!(loss(4.0, 61.0, 0), Some(Class::Huge));
        assert_eq!(loss(4.0, 61.0, 1), Some(Class::Ordinary), "wrong results weigh more");
        let other = Accuracy([(Class::Tiny, Errors::default())].into());
        assert_eq!(known.loss_from(&other), None, "nothing to compare");
    }

    #[test]
    fn errors_read_well() {
        let errors = |worst, wrong| Errors { worst, typical: worst / 4.0, wrong }.to_string();
        assert_eq!(errors(2.04, 0), "2.0 (0.5)");
        assert_eq!(errors(4_000_000.0, 3), "4e6 (1e6), 3 wrong");
    }

    #[test]
    fn classes_are_named_as_in_records() {
        for class in Class::ALL {
            let accuracy = Accuracy([(class, Errors::default())].into());
            let text = toml::to_string(&accuracy).unwrap();
            assert!(text.contains(class.name()), "{text}");
            assert_eq!(toml::from_str::<Accuracy>(&text).unwrap(), accuracy);
        }
    }
}
