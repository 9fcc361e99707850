//! Checks before a launch, one function per error.

use crate::{Error, Unfit};

/// Checks that a dimension is in its range.
///
/// # Errors
///
/// [`Error::OutOfRange`]
#[inline]
pub fn range(
    kernel: &'static str,
    dim: &'static str,
    got: usize,
    (lo, hi): (usize, usize),
) -> Result<i64, Error> {
    if (lo..=hi).contains(&got) {
        Ok(got as i64)
    } else {
        Err(Error::OutOfRange { kernel, dim, got, lo, hi })
    }
}

/// Checks that a dimension is at least what its lower end is in this launch.
///
/// # Errors
///
/// [`Error::BelowLowerEnd`]
#[inline]
pub fn at_least(
    kernel: &'static str,
    (dim, end): (&'static str, &'static str),
    got: i64,
    least: i64,
) -> Result<(), Error> {
    if got >= least {
        return Ok(());
    }
    let [got, least] = [got, least].map(|it| usize::try_from(it).unwrap_or(0));
    Err(Error::BelowLowerEnd { kernel, dim, got, end, least })
}

/// Checks the length of an argument.
///
/// # Errors
///
/// [`Error::Length`]
#[inline]
pub fn len(
    kernel: &'static str,
    (arg, shape): (&'static str, &'static str),
    got: usize,
    want: i64,
) -> Result<(), Error> {
    let want = usize::try_from(want).unwrap_or(0);
    if got == want { Ok(()) } else { Err(Error::Length { kernel, arg, shape, want, got }) }
}

/// Unwraps a converted argument.
///
/// # Errors
///
/// [`Unfit`] if the argument cannot be used.
#[inline]
pub fn fit<T>(
    kernel: &'static str,
    arg: &'static str,
    taken: Result<T, Unfit>,
) -> Result<T, Error> {
    taken.map_err(|it| it.of(kernel, arg))
}

/// Infers a dimension: solves `factor * dim + rest = length` of an argument.
///
/// # Errors
///
/// [`Error::Indivisible`] if there is none.
#[inline]
pub fn infer(
    kernel: &'static str,
    (arg, shape): (&'static str, &'static str),
    dim: &'static str,
    got: usize,
    (factor, rest): (i64, i64),
) -> Result<usize, Error> {
    let exact = (factor > 0).then(|| (got as i64).checked_sub(rest)).flatten();
    let exact = exact.filter(|it| it % factor == 0).map(|it| it / factor);
    let error = Error::Indivisible { kernel, arg, shape, dim, got };
    exact.and_then(|it| usize::try_from(it).ok()).ok_or(error)
}

/// Checks that an address is aligned to the element type.
///
/// # Errors
///
/// [`Error::Misaligned`]
pub fn pointer<T>(kernel: &'static str, arg: &'static str, pointer: *const T) -> Result<(), Error> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(Error::Misaligned { kernel, arg, align: align_of::<T>() });
    }
    Ok(())
}

/// Checks that a result, given by name, address and bytes, shares no memory with an argument.
///
/// # Errors
///
/// [`Error::Overlap`]
pub fn disjoint(
    kernel: &'static str,
    (a, a_address, a_bytes): (&'static str, usize, usize),
    (b, b_address, b_bytes): (&'static str, usize, usize),
) -> Result<(), Error> {
    let a_end = a_address.saturating_add(a_bytes);
    let b_end = b_address.saturating_add(b_bytes);
    let apart = a_end <= b_address || b_end <= a_address;
    if apart { Ok(()) } else { Err(Error::Overlap { kernel, a, b }) }
}
