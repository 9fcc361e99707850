//! Errors of results, in units that say what a function promises.

/// Distance in units in the last place (ulp) of the right result, as an `f32`.
///
/// An infinity counts as 2^128, so that results at the edge of the range have small errors; a NaN in
/// place of a number, or the other way round, an infinite one.
pub fn ulps(got: f32, want: f64) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = want as f32;
    if got == rounded {
        return 0.0;
    }
    let past = 2_f64.powi(128);
    let finite = |it: f64| it.clamp(-past, past);
    (finite(got.into()) - finite(want)).abs() / ulp(rounded)
}

/// Distance in ulps of the argument: for what is a share of its argument.
pub fn ulps_of(x: f32, got: f32, want: f64) -> f64 {
    let of_result = ulps(got, want);
    if of_result.is_finite() && x.is_finite() && got.is_finite() {
        of_result.min((f64::from(got) - want).abs() / ulp(x))
    } else {
        of_result
    }
}

/// Distance in ulps of the right result; none where both it and the result are tiny.
pub fn ulps_above(tiny: f64, got: f32, want: f64) -> f64 {
    if f64::from(got).abs() <= tiny && want.abs() <= tiny { 0.0 } else { ulps(got, want) }
}

/// No distance for the same number, an infinite one otherwise; zeros have signs, NaNs are all one.
pub fn exact(got: f32, want: f32) -> f64 {
    let same = got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan();
    if same { 0.0 } else { f64::INFINITY }
}

/// The distance from a number to the next one away from zero; of an infinity, that below it.
fn ulp(x: f32) -> f64 {
    let size = x.abs().min(f32::MAX);
    if size == f32::MAX {
        return 2_f64.powi(104);
    }
    f64::from(f32::from_bits(size.to_bits() + 1)) - f64::from(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ulp_is_that_of_the_right_result() {
        assert_eq!(ulps(1.0 + f32::EPSILON, 1.0), 1.0);
        assert_eq!(ulps(1.0, 1.0 + 1e-9), 0.0);
        assert_eq!(ulps(f32::from_bits(3), 0.0), 3.0);
        assert_eq!(ulps(f32::INFINITY, f32::MAX.into()), 1.0);
        assert_eq!(ulps(f32::MAX, 1e300), 1.0);
        assert_eq!(ulps(f32::MAX, f64::INFINITY), 1.0);
        assert!(ulps(f32::NEG_INFINITY, 1e300) > 1e7);
        assert_eq!(ulps(f32::NAN, 0.0), f64::INFINITY);
        assert_eq!(ulps(0.0, f64::NAN), f64::INFINITY);
        assert_eq!(ulps(f32::NAN, f64::NAN), 0.0);
    }

    #[test]
    fn a_share_of_the_argument_is_measured_by_it() {
        assert_eq!(ulps_of(4.0, f32::EPSILON, 0.0), 0.25);
        assert_eq!(ulps_of(f32::INFINITY, f32::NAN, 0.0), f64::INFINITY);
        assert_eq!(ulps_of(-1e10, -894.0, 0.0), 894.0 / 1024.0);
        assert_eq!(ulps_above(1e-30, 1e-31, 0.0), 0.0);
        assert!(ulps_above(1e-30, 1e-29, 0.0) > 1.0);
        assert_eq!((exact(0.0, -0.0), exact(f32::NAN, -f32::NAN)), (f64::INFINITY, 0.0));
    }
}
