//! The cases: programs of each class that users write.
//!
//! A case is a program without its extents. It is *checked* at small and non-divisible ones,
//! against the interpreter, and *timed* at some that occur in networks. The same checks run in the
//! emulator as tests of this workspace.

mod matrix;
mod memory;
mod rows;
mod scan;
mod window;

/// A program, with the extents at which it is checked and timed.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The class of the program.
    pub class: Class,
    /// The function, without its attribute.
    pub function: &'static str,
    /// The extents at which it is checked.
    pub checks: &'static [Check],
    /// The extents at which it is timed, all of them fixed.
    pub times: &'static [&'static str],
}

impl Case {
    /// Returns the name of the function, by which peers know the case too.
    pub fn name(&self) -> &'static str {
        let name = self.function.trim_start_matches("fn ");
        name.split_once('(').map_or(name, |(name, _)| name)
    }
}

/// Extents at which a program is checked.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// As `dims(..)` has them.
    pub dims: &'static str,
    /// The dynamic ones of each launch.
    pub at: &'static [&'static [i64]],
}

/// A class of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Matrix products by multiply-adds of threads.
    MatrixF32,
    /// Matrix products by MMA.
    MatrixNarrow,
    /// Matrix products of `f32`, rounded to TF32, by MMA.
    MatrixTf32,
    /// Convolutions.
    Convolution,
    /// Attention, as its parts.
    Attention,
    /// Programs on rows: softmax, normalizations.
    Rows,
    /// Reductions to less than a row.
    Reduction,
    /// Reductions up to an index.
    Scan,
    /// Elementwise programs.
    Elementwise,
    /// Data movement.
    Movement,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 10] = [
        Self::MatrixF32,
        Self::MatrixNarrow,
        Self::MatrixTf32,
        Self::Convolution,
        Self::Attention,
        Self::Rows,
        Self::Reduction,
        Self::Scan,
        Self::Elementwise,
        Self::Movement,
    ];
}

/// Returns all cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [matrix::CASES, window::CASES, rows::CASES, scan::CASES, memory::CASES].into_iter().flatten()
}

/// Returns the case of a name.
pub fn named(name: &str) -> Option<&'static Case> {
    all().find(|it| it.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_classes_are_all_there() {
        let names: BTreeSet<&str> = all().map(Case::name).collect();
        assert_eq!(names.len(), all().count());
        let classes: BTreeSet<Class> = all().map(|it| it.class).collect();
        assert!(classes.iter().eq(&Class::ALL));
        assert!(all().all(|it| !it.checks.is_empty() && named(it.name()).is_some()));
    }
}
