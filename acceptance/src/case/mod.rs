//! What is checked and timed: programs of each class that users write.
//!
//! A case is a program without its extents. It is *checked* at small and awkward ones, where the
//! interpreter says what is right, and *timed* at some that occur in networks. The same checks run
//! in the emulator as tests of this workspace.

mod matrix;
mod memory;
mod rows;
mod scan;
mod window;

/// A program, and where it is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What it is called: peers know it by this name.
    pub name: &'static str,
    /// What it is an example of.
    pub class: Class,
    /// The function, without its attribute.
    pub function: &'static str,
    /// Where it is checked.
    pub checks: &'static [Check],
    /// Where it is timed: extents, all of them fixed.
    pub times: &'static [&'static str],
}

/// Extents at which a program is checked.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// As `dims(..)` has them.
    pub dims: &'static str,
    /// The dynamic ones of each launch.
    pub at: &'static [&'static [i64]],
}

/// What programs are examples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Products of matrices by multiply-adds of threads.
    MatrixF32,
    /// Products of matrices by matrix instructions.
    MatrixNarrow,
    /// The same of `f32`, rounded to TF32.
    MatrixTf32,
    /// Convolutions.
    Convolution,
    /// Attention, as its parts.
    Attention,
    /// What works on rows.
    Rows,
    /// Reductions to less than a row.
    Reduction,
    /// Reductions up to an index.
    Scan,
    /// What computes each element on its own.
    Elementwise,
    /// What moves elements elsewhere.
    Movement,
}

impl Class {
    /// All of them.
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

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [matrix::CASES, window::CASES, rows::CASES, scan::CASES, memory::CASES].into_iter().flatten()
}

/// The case of that name.
pub fn named(name: &str) -> Option<&'static Case> {
    all().find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_classes_are_all_there() {
        let names: BTreeSet<&str> = all().map(|it| it.name).collect();
        assert_eq!(names.len(), all().count());
        let classes: BTreeSet<Class> = all().map(|it| it.class).collect();
        assert!(classes.iter().eq(&Class::ALL));
        assert!(all().all(|it| !it.checks.is_empty() && named(it.name).is_some()));
    }
}
