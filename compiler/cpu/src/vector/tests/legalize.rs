//! Exact arithmetic: every result has one right answer.

use tvmtune_ir::half::{Bf16, F16};

use super::{Function, ValueGraph, evaluate};
use crate::vector::{VectorBinary, VectorUnary};
use tvmtune_ir::dag::DType;
use tvmtune_ir::dag::number::round;

fn pairs<T: Copy>(values: &[T]) -> Vec<(T, T)> {
    values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))).collect()
}

fn ints() -> Vec<i32> {
    let mut values = vec![0, 1, 2, 3, 5, 7, 10, 1000, 65_535, 65_536, 16_777_215, 16_777_217];
    values.extend([
        46_341,
        1 << 30,
        (1 << 30) + 1,
        i32::MAX,
        i32::MAX - 1,
        123_456_789,
        715_827_883,
    ]);
    let negative: Vec<i32> = values.iter().map(|it| -it).collect();
    [values, negative, vec![i32::MIN, i32::MIN + 1]].concat()
}

fn floats() -> Vec<f32> {
    let limits =
        [2_147_483_648.0, 2_147_483_500.0, 127.0, 127.5, 128.0, 255.0, 255.9, 256.0, 65_504.0];
    let small =
        [0.0, 0.49, 0.5, 1.0, 1.5, 2.5, 1e-8, 6e-8, 3e-5, 6.1e-5, 1e-40, 65_519.9, 65_520.0];
    let positive = [limits.to_vec(), small.to_vec(), vec![1e30, f32::MAX, f32::INFINITY]].concat();
    let negative = positive.iter().map(|it| -it).collect();
    // Not only the usual one: those that a carry would make an infinity, or a number.
    let nans = [f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0x7fff_ffff)];
    [positive, negative, nans.to_vec()].concat()
}

fn check(function: Function<'_>, points: &[(u32, u32)], right: &dyn Fn(u32, u32) -> u32) {
    let (a, b): (Vec<u32>, Vec<u32>) = points.iter().copied().unzip();
    for (at, got) in points.iter().zip(evaluate(function, &a, &b)) {
        let want = right(at.0, at.1);
        let both_nan = f32::from_bits(got).is_nan() && f32::from_bits(want).is_nan();
        assert!(got == want || both_nan, "{at:x?}: {got:#x}, not {want:#x}");
    }
}

fn check_float(function: Function<'_>, right: &dyn Fn(f32) -> u32) {
    // Between the chosen values, everything that a bit pattern can be.
    let more = (0..40_000_u32).map(|n| f32::from_bits(n.wrapping_mul(0x9e37_79b9)));
    let values: Vec<f32> = floats().into_iter().chain(more).collect();
    let points: Vec<(u32, u32)> = values.iter().map(|it| (it.to_bits(), 0)).collect();
    check(function, &points, &|x, _| right(f32::from_bits(x)));
}

#[test]
fn division_rounds_towards_zero_and_wraps() {
    let words: Vec<u32> = ints().iter().map(|it| *it as u32).collect();
    let more = (0..4000_u32)
        .map(|n| (n.wrapping_mul(0x9e37_79b9), n.wrapping_mul(0x85eb_ca6b) >> (n % 32)));
    let points: Vec<(u32, u32)> = pairs(&words).into_iter().chain(more).collect();
    let quotient = |a: u32, b: u32| {
        (a as i32).checked_div(b as i32).unwrap_or(if b == 0 { 0 } else { i32::MIN })
    };
    check(&|graph, a, b| graph.divide(a, b, false).0, &points, &|a, b| quotient(a, b) as u32);
    let rest = |a: u32, b: u32| if b == 0 { 0 } else { (a as i32).wrapping_rem(b as i32) };
    check(&|graph, a, b| graph.divide(a, b, false).1, &points, &|a, b| rest(a, b) as u32);
}

#[test]
fn shifts_are_modulo_the_bits_of_the_type() {
    let words: Vec<u32> = ints().iter().map(|it| *it as u32).collect();
    let by = |op, dtype| move |graph: &mut ValueGraph, a, b| graph.shift(op, a, b, dtype);
    let points = pairs(&words);
    let left = by(VectorBinary::ShiftLeftBy, DType::I32);
    check(&left, &points, &|a, b| a.wrapping_shl(b));
    let right = by(VectorBinary::ShiftRightBy, DType::U32);
    check(&right, &points, &|a, b| a.wrapping_shr(b));
    let signed = by(VectorBinary::ShiftRightSignedBy, DType::I32);
    check(&signed, &points, &|a, b| a.cast_signed().wrapping_shr(b).cast_unsigned());
    let bytes: Vec<u32> = (0..256).map(|it| it as i8 as u32).collect();
    let signed = by(VectorBinary::ShiftRightSignedBy, DType::I8);
    check(&signed, &pairs(&bytes), &|a, b| (a as i8).wrapping_shr(b) as u32);
    // Known amounts have instructions of their own.
    for amount in [0, 1, 7, 31, 32, -1] {
        let known = |op| {
            move |graph: &mut ValueGraph, a, _| {
                let by = graph.int(amount);
                graph.shift(op, a, by, DType::I32)
            }
        };
        let n = amount as u32;
        check(&known(VectorBinary::ShiftLeftBy), &points, &|a, _| a.wrapping_shl(n));
        check(&known(VectorBinary::ShiftRightBy), &points, &|a, _| a.wrapping_shr(n));
    }
}

#[test]
fn small_numbers_divide_in_one_step() {
    let limit = (1 << 24) - 1;
    let mut values: Vec<i32> =
        ints().into_iter().filter(|it| it.unsigned_abs() <= 0xff_ffff).collect();
    values.extend([limit, -limit, limit - 1, 4095, 4096, 4097, 8_388_607]);
    let words: Vec<u32> = values.iter().map(|it| *it as u32).collect();
    let quotient = |a: u32, b: u32| (a as i32).checked_div(b as i32).unwrap_or(0);
    check(&|graph, a, b| graph.divide(a, b, true).0, &pairs(&words), &|a, b| quotient(a, b) as u32);
    let rest = |a: u32, b: u32| (a as i32).checked_rem(b as i32).unwrap_or(0);
    check(&|graph, a, b| graph.divide(a, b, true).1, &pairs(&words), &|a, b| rest(a, b) as u32);
}

#[test]
fn of_a_number_and_a_nan_the_number_is_smaller_and_of_equal_numbers_the_second() {
    let words: Vec<u32> = floats().iter().map(|it| it.to_bits()).collect();
    let float = f32::from_bits;
    let right = |op: VectorBinary| {
        move |a: u32, b: u32| match (op, float(a), float(b)) {
            (_, _, y) if y.is_nan() => a,
            (VectorBinary::MinF, x, y) if x < y => a,
            (VectorBinary::MaxF, x, y) if x > y => a,
            _ => b,
        }
    };
    for op in [VectorBinary::MinF, VectorBinary::MaxF] {
        check(&|graph, a, b| graph.min_max_num(op, a, b), &pairs(&words), &right(op));
        // Constants, on either side.
        for constant in words.iter().copied() {
            let points: Vec<(u32, u32)> = words.iter().map(|it| (*it, 0)).collect();
            let first: Function<'_> = &|graph, x, _| {
                let constant = graph.splat(constant.into());
                graph.min_max_num(op, constant, x)
            };
            check(first, &points, &|x, _| right(op)(constant, x));
            let second: Function<'_> = &|graph, x, _| {
                let constant = graph.splat(constant.into());
                graph.min_max_num(op, x, constant)
            };
            check(second, &points, &|x, _| right(op)(x, constant));
        }
    }
}

#[test]
fn floats_become_integers_as_rust_converts_them() {
    check_float(&|graph, x, _| graph.float_to_int(x), &|x| x as i32 as u32);
    check_float(&|graph, x, _| graph.float_to_byte(x, -128.0, 127.0), &|x| {
        i32::from(x as i8) as u32
    });
    check_float(&|graph, x, _| graph.float_to_byte(x, 0.0, 255.0), &|x| u32::from(x as u8));
}

#[test]
fn tf32_rounds_to_nearest_even() {
    let right = |x: f32| {
        let exponent = (i32::from((x.to_bits() >> 23) as u8)).max(1) - 127;
        let digit = f64::from(exponent - 10).exp2();
        let rounded =
            if x.is_finite() { (f64::from(x) / digit).round_ties_even() * digit } else { x.into() };
        (rounded as f32).to_bits()
    };
    check_float(&|graph, x, _| graph.tf32(x), &right);
}

#[test]
fn half_precision_rounds_to_nearest_even() {
    check_float(&|graph, x, _| graph.round_to_f16(x), &|x| F16::from_f32(x).to_f32().to_bits());
    check_float(&|graph, x, _| graph.round_to_bf16(x), &|x| Bf16::from_f32(x).to_f32().to_bits());
}

#[test]
fn integers_become_small_floats_by_one_rounding() {
    let edges = (0..32).flat_map(|bit| (0..32).map(move |low| (1_u32 << bit) | (1 << low)));
    let near = edges.flat_map(|it| [it, it.wrapping_add(1), it.wrapping_sub(1)]);
    let near: Vec<u32> = near.flat_map(|it| [it, it.wrapping_neg()]).collect();
    let more = (0..20_000_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
    let points: Vec<(u32, u32)> = near.into_iter().chain(more).map(|it| (it, 0)).collect();
    let right = |x: f64| (round(x, DType::Bf16) as f32).to_bits();
    let signed: Function<'_> = &|graph, x, _| {
        let odd = graph.odd(x, DType::I32);
        let float = graph.unary(VectorUnary::IntToFloat, odd);
        graph.round_to_bf16(float)
    };
    check(signed, &points, &|x, _| right(x.cast_signed().into()));
    let unsigned: Function<'_> = &|graph, x, _| {
        let odd = graph.odd(x, DType::U32);
        let float = graph.unsigned_to_float(odd);
        graph.round_to_bf16(float)
    };
    check(unsigned, &points, &|x, _| right(x.into()));
}
