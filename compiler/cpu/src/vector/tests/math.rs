//! The accuracy that `intrinsic.rs` states.

use super::{Function, evaluate};

/// The same number of points between each power of two and the next.
fn everywhere() -> Vec<f32> {
    let mantissas = (0..16).map(|n| n * 0x0007_ffff + 12_345 * n % 4096);
    let points = mantissas.flat_map(|mantissa| (0..255).map(move |e| (e << 23) | mantissa));
    let points = points.map(|bits| f32::from_bits(bits & 0x7fff_ffff));
    points.flat_map(|x| [x, -x]).filter(|x| x.is_finite()).collect()
}

fn between(low: f32, high: f32, n: u32) -> Vec<f32> {
    (0..=n).map(|at| low + (high - low) * (at as f32 / n as f32)).collect()
}

/// Distance in units of the last place of the right result.
fn ulps(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    ((f64::from(got) - want) / unit.max(f64::from(f32::from_bits(1)))).abs()
}

/// The greatest error over the points, and where.
fn worst(
    function: Function<'_>,
    points: &[(f32, f32)],
    right: &dyn Fn(f64, f64) -> f64,
    error: &dyn Fn(f32, f64) -> f64,
) -> (f64, (f32, f32), f32) {
    let bits = |of: &dyn Fn(&(f32, f32)) -> f32| -> Vec<u32> {
        points.iter().map(|it| of(it).to_bits()).collect()
    };
    let got = evaluate(function, &bits(&|it| it.0), &bits(&|it| it.1));
    let errors = points.iter().zip(got).map(|(at, got)| {
        let got = f32::from_bits(got);
        let it = error(got, right(f64::from(at.0), f64::from(at.1)));
        (if it.is_nan() { f64::INFINITY } else { it }, *at, got)
    });
    errors.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

fn check_ulps(function: Function<'_>, points: &[f32], right: &dyn Fn(f64) -> f64, limit: f64) {
    let points: Vec<(f32, f32)> = points.iter().map(|x| (*x, 0.0)).collect();
    let found = worst(function, &points, &|x, _| right(x), &ulps);
    assert!(found.0 <= limit, "{} ulp at {:?}: {}", found.0, found.1, found.2);
}

fn check_absolute(function: Function<'_>, points: &[f32], right: &dyn Fn(f64) -> f64, limit: f64) {
    let points: Vec<(f32, f32)> = points.iter().map(|x| (*x, 0.0)).collect();
    let error = |got: f32, want: f64| (f64::from(got) - want).abs();
    let found = worst(function, &points, &|x, _| right(x), &error);
    assert!(found.0 <= limit, "{} at {:?}: {}", found.0, found.1, found.2);
}

const SPECIAL: [f32; 6] = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];

#[test]
fn exp_is_within_2_ulp_down_to_denormal_results() {
    let points = [between(-110.0, 95.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| graph.exp(x), &points, &libm::exp, 2.0);
}

#[test]
fn ln_is_within_2_ulp_and_knows_what_has_no_logarithm() {
    let points = [between(0.5, 2.0, 20_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| graph.ln(x), &points, &libm::log, 2.0);
}

#[test]
fn tanh_is_within_5_ulp() {
    let points = [between(-10.0, 10.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| graph.tanh(x), &points, &libm::tanh, 5.0);
}

#[test]
fn erf_is_within_3e_7() {
    let points = [between(-5.0, 5.0, 40_000), everywhere(), SPECIAL[..4].to_vec()].concat();
    check_absolute(&|graph, x, _| graph.erf(x), &points, &libm::erf, 3e-7);
    check_ulps(&|graph, x, _| graph.erf(x), &[f32::NAN], &libm::erf, 0.0);
}

#[test]
fn sine_and_cosine_are_within_1e_7_up_to_1e5() {
    let points = [between(-7.0, 7.0, 20_000), between(-1e5, 1e5, 40_000)].concat();
    check_absolute(&|graph, x, _| graph.sin(x), &points, &libm::sin, 1e-7);
    check_absolute(&|graph, x, _| graph.cos(x), &points, &libm::cos, 1e-7);
    let lost = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    check_ulps(&|graph, x, _| graph.sin(x), &lost, &libm::sin, 0.0);
    check_ulps(&|graph, x, _| graph.cos(x), &lost, &libm::cos, 0.0);
}

#[test]
fn powers_are_within_4_ulp_with_the_signs_of_c() {
    let bases = [between(0.01, 3.0, 80), everywhere().into_iter().step_by(97).collect()].concat();
    let bases = [bases, SPECIAL.to_vec(), vec![-1.0, -2.0, -0.5]].concat();
    let exponents = [between(-4.0, 4.0, 32), between(-120.0, 120.0, 16), SPECIAL.to_vec()].concat();
    let pairs = bases.iter().flat_map(|x| exponents.iter().map(move |y| (*x, *y)));
    let points: Vec<(f32, f32)> = pairs.collect();
    let found = worst(&|graph, x, y| graph.pow(x, y), &points, &libm::pow, &ulps);
    assert!(found.0 <= 4.0, "{} ulp at {:?}: {}", found.0, found.1, found.2);
}
