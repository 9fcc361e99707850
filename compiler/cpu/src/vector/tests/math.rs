//! The accuracy that `tvmtune_math` states.

use tvmtune_math::{Arithmetic, elementary, exponential, trig};

use super::{Function, ValueGraph, ValueId, evaluate};

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

/// The float beyond 1 that is closest to a multiple of a quarter turn, and others close to one.
const CLOSE: [f32; 4] = [1.0e22, 3.370_280_5e12, 16_367_173.0 * 4.722_366_5e21, 5.077_419_3e33];

const SPECIAL: [f32; 6] = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0];

#[test]
fn exp_is_within_2_ulp_down_to_denormal_results() {
    let points = [between(-110.0, 95.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| elementary::exp(graph, x), &points, &libm::exp, 2.0);
}

#[test]
fn ln_is_within_2_ulp_and_knows_what_has_no_logarithm() {
    let points = [between(0.5, 2.0, 20_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| elementary::ln(graph, x), &points, &libm::log, 2.0);
}

#[test]
fn exponentials_to_base_2_and_near_0_are_within_1_1_ulp() {
    let points = [between(-155.0, 130.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| exponential::exp2(graph, x), &points, &libm::exp2, 1.0);
    let points = [between(-20.0, 90.0, 40_000), between(-1.0, 1.0, 20_000), points].concat();
    check_ulps(&|graph, x, _| exponential::exp_m1(graph, x), &points, &libm::expm1, 1.1);
}

#[test]
fn logarithms_to_base_2_and_near_1_are_within_1_1_ulp() {
    let points = [between(0.5, 2.0, 20_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| exponential::log2(graph, x), &points, &libm::log2, 1.1);
    let points = [between(-1.0, 4.0, 40_000), points, vec![-1.0]].concat();
    check_ulps(&|graph, x, _| exponential::ln_1p(graph, x), &points, &libm::log1p, 1.0);
}

#[test]
fn tanh_is_within_5_ulp() {
    let points = [between(-10.0, 10.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| elementary::tanh(graph, x), &points, &libm::tanh, 5.0);
}

#[test]
fn erf_is_within_5_5_ulp() {
    let points = [between(-5.0, 5.0, 40_000), everywhere(), SPECIAL.to_vec()].concat();
    check_ulps(&|graph, x, _| elementary::erf(graph, x), &points, &libm::erf, 5.5);
}

#[test]
fn what_rises_to_1_reaches_it_and_goes_no_further() {
    let points = [between(-30.0, 30.0, 60_000), everywhere()].concat();
    let bits: Vec<u32> = points.iter().map(|it| it.to_bits()).collect();
    let functions: [Function<'_>; 2] =
        [&|graph, x, _| elementary::tanh(graph, x), &|graph, x, _| elementary::erf(graph, x)];
    for function in functions {
        for (x, got) in points.iter().zip(evaluate(function, &bits, &bits)) {
            let got = f32::from_bits(got);
            assert!(got.abs() <= 1.0 && (x.abs() < 9.1 || got == x.signum()), "{x}: {got}");
        }
    }
}

#[test]
fn sine_and_cosine_are_within_2_ulp_at_all_angles() {
    let multiples = (1..60_000_i32).map(|n| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32);
    let next = |x: f32| [x, f32::from_bits(x.to_bits() + 1), f32::from_bits(x.to_bits() - 1)];
    let points = [between(-7.0, 7.0, 20_000), everywhere(), SPECIAL.to_vec()].concat();
    let points = [points, multiples.flat_map(next).collect(), CLOSE.to_vec()].concat();
    check_ulps(&|graph, x, _| trig::sin(graph, x), &points, &libm::sin, 2.0);
    check_ulps(&|graph, x, _| trig::cos(graph, x), &points, &libm::cos, 2.0);
}

#[test]
fn angles_of_lanes_are_reduced_each_by_its_own_size() {
    // Small and large ones, whatever lane they are in.
    let points: Vec<f32> = (0..4096_i32)
        .map(|n| if n % 37 == n % 5 { 3e7 * (n + 1) as f32 } else { n as f32 * 0.01 })
        .collect();
    check_ulps(&|graph, x, _| trig::sin(graph, x), &points, &libm::sin, 2.0);
}

#[test]
fn large_angles_that_are_constants_are_folded() {
    let two = |graph: &mut ValueGraph, x: ValueId, _: ValueId| {
        let (small, large) = (graph.float(2.0), graph.float(1e22));
        let (small, large) = (trig::sin(graph, small), trig::sin(graph, large));
        let sum = graph.add(small, large);
        graph.mul(sum, x)
    };
    let want = f64::from(2_f32).sin() + f64::from(1e22_f32).sin();
    check_ulps(&two, &[1.0], &|_| want, 3.0);
}

#[test]
fn powers_are_within_3_ulp_with_the_signs_of_c() {
    let bases = [between(0.01, 3.0, 80), everywhere().into_iter().step_by(97).collect()].concat();
    let bases = [bases, SPECIAL.to_vec(), vec![-1.0, -2.0, -0.5]].concat();
    let huge = vec![4.9e11, 5e11, -1e12, 3e38, -3e38, 16_777_215.0, -8_388_607.5];
    let exponents =
        [between(-4.0, 4.0, 32), between(-260.0, 260.0, 16), SPECIAL.to_vec(), huge].concat();
    let pairs = bases.iter().flat_map(|x| exponents.iter().map(move |y| (*x, *y)));
    let points: Vec<(f32, f32)> = pairs.collect();
    let found = worst(&|graph, x, y| elementary::pow(graph, x, y), &points, &libm::pow, &ulps);
    assert!(found.0 <= 3.0, "{} ulp at {:?}: {}", found.0, found.1, found.2);
}
