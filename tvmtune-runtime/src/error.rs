//! What can be wrong with a launch.

/// Why a kernel did not run, or did not finish.
///
/// Every text names the kernel and the argument, and ends in what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A dynamic dimension lies outside of what the program declares.
    #[error(
        "`{kernel}`: dimension `{dim}` is {got}, outside of its range {lo}..={hi}; \
         launch on parts of the data, or widen `{dim}` in `dims(..)` of `#[autotune]`"
    )]
    OutOfRange {
        /// The kernel's name.
        kernel: &'static str,
        /// The dimension, as the program spells it.
        dim: &'static str,
        /// What was passed, or follows from the lengths of the arguments.
        got: usize,
        /// The least extent that the program declares.
        lo: usize,
        /// The greatest.
        hi: usize,
    },
    /// An argument has the wrong number of elements.
    #[error(
        "`{kernel}`: argument `{arg}` has {got} elements, expected {want} for shape {shape}; \
         pass a slice of exactly that length"
    )]
    Length {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// Its shape, as the program spells it.
        shape: &'static str,
        /// How many elements that shape has.
        want: usize,
        /// How many were passed.
        got: usize,
    },
    /// A dimension does not follow from the length of an argument: no extent gives that length.
    #[error(
        "`{kernel}`: no `{dim}` gives argument `{arg}` of shape {shape} its {got} elements; \
         pass a slice whose length is a multiple of what the other dimensions make"
    )]
    Indivisible {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument from which the dimension is inferred.
        arg: &'static str,
        /// Its shape, as the program spells it.
        shape: &'static str,
        /// The dimension, as the program spells it.
        dim: &'static str,
        /// How many elements were passed.
        got: usize,
    },
    /// An address is null or not a multiple of the size of the elements.
    #[error(
        "`{kernel}`: the address of argument `{arg}` is null or not a multiple of {align} bytes; \
         pass memory that is aligned for its element type"
    )]
    Misaligned {
        /// The kernel's name.
        kernel: &'static str,
        /// The argument.
        arg: &'static str,
        /// What the address must be a multiple of, in bytes.
        align: usize,
    },
    /// A result shares memory with another argument.
    #[error(
        "`{kernel}`: result `{a}` overlaps argument `{b}`; \
         kernels do not work in place: pass memory of its own for each result"
    )]
    Overlap {
        /// The kernel's name.
        kernel: &'static str,
        /// The result.
        a: &'static str,
        /// The argument it overlaps.
        b: &'static str,
    },
    /// Memory for temporaries could not be allocated.
    #[error("`{kernel}`: no memory for {bytes} bytes of temporaries; launch on parts of the data")]
    OutOfMemory {
        /// The kernel's name.
        kernel: &'static str,
        /// What was asked for.
        bytes: usize,
    },
    /// Generated code panicked; the results are unspecified.
    #[error(
        "`{kernel}`: the portable code panicked, which is a bug in tvmtune; \
         report it at https://github.com/tvmtune/tvmtune/issues"
    )]
    Panicked {
        /// The kernel's name.
        kernel: &'static str,
    },
}
