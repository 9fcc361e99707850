//! Arithmetic as NVRTC prints it, against plain Rust: integers exactly, floats as their
//! functions promise.

use half::{bf16, f16};
use proptest::prelude::*;
use tvmtune_emulator::Module;

use crate::common::{Bytes, Numbers, Run, module};

/// Runs a kernel of one argument for what it reads and one for what it writes.
fn apply<A: Bytes, B: Bytes>(
    module: &Module,
    kernel: &str,
    input: &[A],
    n: usize,
    threads: u32,
) -> Vec<B> {
    let run = Run::new(1, threads).buffer(input).buffer(&vec![0xFFu8; n * B::SIZE]);
    run.run(module, kernel).unwrap().read(1)
}

fn integers(a: i32, b: i32, c: u32, d: u32, e: i64, f: i64) -> [i64; 32] {
    let u = i64::from;
    let funnel = (u64::from(d) << 32 | u64::from(c), a as u32 & 31);
    let bytes = (u64::from(d) << 32 | u64::from(c)).to_le_bytes();
    let permuted = u32::from_le_bytes(std::array::from_fn(|n| {
        bytes[((a as u32 & 0x7777) >> (4 * n) & 7) as usize]
    }));
    let dot: i32 = a
        .to_le_bytes()
        .iter()
        .zip(b.to_le_bytes())
        .map(|(x, y)| i32::from(*x as i8) * i32::from(y as i8))
        .sum();
    let low24 = |x: i32| i64::from(x << 8 >> 8);
    [
        i64::from(a.wrapping_div(b)),
        i64::from(a.wrapping_rem(b)),
        u(c / d),
        u(c % d),
        e.wrapping_div(f),
        e.wrapping_rem(f),
        u(c.count_ones()),
        u(a.leading_zeros()),
        if a == 0 { 0 } else { u(a.trailing_zeros()) + 1 },
        u(c.reverse_bits()),
        u(e.count_ones()),
        u(e.leading_zeros()),
        (i64::from(a) * i64::from(b)) >> 32,
        ((u64::from(c) * u64::from(d)) >> 32) as i64,
        ((i128::from(e) * i128::from(f)) >> 64) as i64,
        i64::from(a) * i64::from(b),
        u(permuted),
        u((funnel.0 << funnel.1 >> 32) as u32),
        u((funnel.0 >> funnel.1) as u32),
        u(c.abs_diff(d).wrapping_add(7)),
        u(a.abs_diff(b).wrapping_add(7)),
        i64::from(a.min(b)),
        u(c.max(d)),
        i64::from(a.wrapping_abs()),
        i64::from(a >> (c & 31)),
        u(c >> (d & 31)),
        e << (c & 63),
        u((c & d) ^ (c | !d)),
        i64::from(dot + 3),
        i64::from(i32::from(a as i16) * i32::from(b as i16)),
        i64::from(i32::from(c as u8) + i32::from(d as i8)),
        i64::from((low24(a) * low24(b)) as i32),
    ]
}

#[test]
fn integers_are_exact() {
    let module = module("arithmetic.sm_80");
    let strategy = (any::<[i32; 9]>(), any::<[u32; 9]>(), any::<[i64; 9]>(), 0..4u32);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    runner
        .run(&strategy, |(mut x, mut u, mut l, small)| {
            // Small numbers make quotients interesting.
            x.iter_mut().skip(small as usize).step_by(3).for_each(|it| *it >>= 20);
            u.iter_mut().skip(small as usize).step_by(3).for_each(|it| *it >>= 24);
            l.iter_mut().skip(small as usize).step_by(2).for_each(|it| *it >>= 50);
            let run = Run::new(1, 8).buffer(&x).buffer(&u).buffer(&l).buffer(&[0i64; 32 * 8]);
            let run = run.argument(3i32).run(&module, "integers").unwrap();
            let got: Vec<i64> = run.read(3);
            for i in 0..8 {
                let want = integers(x[i], x[i + 1] | 1, u[i], u[i + 1] | 1, l[i], l[i + 1] | 1);
                // Results of 32 bits without a sign are written as they are.
                for (n, (got, want)) in got[i * 32..].iter().zip(want).enumerate() {
                    prop_assert!(
                        *got == want || *got as u32 == want as u32 && n >= 8,
                        "{n}: {got} for {want}"
                    );
                }
            }
            Ok(())
        })
        .unwrap();
}

/// Returns the distance of two numbers, in units of the last place of the second.
fn ulps(got: f32, want: f64) -> f64 {
    if got.is_nan() && want.is_nan() || f64::from(got) == want {
        return 0.0;
    }
    let unit = f64::from((want as f32).abs().next_up()) - f64::from((want as f32).abs());
    ((f64::from(got) - want) / unit).abs()
}

#[test]
fn floats_are_as_exact_as_their_functions() {
    let module = module("arithmetic.sm_80");
    let mut x: Vec<f32> = Numbers::new(12).floats(60).iter().map(|it| it * 20.0).collect();
    x.extend([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, 3.5, 1e-3, 100.0]);
    let n = x.len() - 1;
    let got: Vec<f32> = apply(&module, "floats", &x, n * 24, n as u32);
    for i in 0..n {
        let (a, b) = (f64::from(x[i]), f64::from(x[i + 1]));
        let got = &got[i * 24..][..24];
        let close = [
            (2, a.exp()),
            (3, a.abs().ln()),
            (4, a.sin()),
            (5, a.cos()),
            (6, a.tanh()),
            (7, a.abs().powf(b)),
            (9, 1.0 / a.abs().sqrt()),
            (22, a.exp2()),
        ];
        for (n, want) in close {
            let error = ulps(got[n], want);
            assert!(error < 5.0 || want.abs() < 1e-6, "{n} of {a} and {b}: {} for {want}", got[n]);
        }
        let exact = [
            (0, a / b),
            (1, a.abs().sqrt()),
            (10, a.min(b)),
            (11, a.max(b)),
            (12, a.floor()),
            (13, a.ceil()),
            (14, a.trunc()),
            (15, a.round_ties_even()),
            (16, a.round()),
            (17, a % b),
            (23, if a < b { a.copysign(b) } else { a.clamp(0.0, 1.0) }),
        ];
        for (n, want) in exact {
            let same = got[n].is_nan() && want.is_nan() || got[n] == want as f32;
            assert!(same, "{n} of {a} and {b}: {} for {want}", got[n]);
        }
        // Directed results are on their side, and the next number is not.
        let sides = [(18, a + b, 0), (19, a * b, 1), (20, a / b, -1), (21, a * b + a, 1)];
        for (n, exact, side) in sides.into_iter().filter(|it| it.1.is_finite()) {
            let (got, at) = (f64::from(got[n]), got[n]);
            let right = match side {
                0 => got.abs() <= exact.abs() && exact.abs() < f64::from(at.abs().next_up()),
                1 => got >= exact && f64::from(at.next_down()) < exact || got == exact,
                _ => got <= exact && f64::from(at.next_up()) > exact,
            };
            assert!(right, "{n} of {a} and {b}: {got} for {exact}");
        }
    }
}

#[test]
fn doubles_are_computed_in_double_precision() {
    let module = module("arithmetic.sm_80");
    let x: Vec<f64> = Numbers::new(13).floats(30).iter().map(|it| f64::from(*it) * 9.0).collect();
    let n = x.len() - 1;
    let got: Vec<f64> = apply(&module, "doubles", &x, n * 10, n as u32);
    for i in 0..n {
        let (a, b) = (x[i], x[i + 1]);
        let want = [
            a / b,
            a.abs().sqrt(),
            a.exp(),
            a.abs().ln(),
            a.mul_add(b, a),
            a.min(b),
            a.floor(),
            a.sin(),
            a.mul_add(b, -a),
            f64::from(a as f32) + (b as i64) as f64,
        ];
        for (n, (got, want)) in got[i * 10..].iter().zip(want).enumerate() {
            let error = ((got - want) / want.abs().max(1e-300)).abs();
            assert!(error < 1e-15, "{n} of {a} and {b}: {got} for {want}");
        }
    }
}

/// Halves of every kind: special ones, and any bits.
fn halves() -> Vec<u16> {
    let mut found =
        vec![0, 0x8000, 1, 0x8001, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x3F80];
    let mut numbers = Numbers::new(14);
    found.extend((0..169).map(|_| numbers.bits() as u16));
    found
}

/// Returns the fused result of three 16-bit floats, computed so precisely that one rounding is
/// left.
type Exact = fn(f64, f64, f64) -> f64;

#[test]
fn halves_are_rounded_once() {
    let module = module("conversions.sm_90a");
    let x = halves();
    let n = x.len() / 3;
    let f16s: [(&str, Exact); 6] = [
        ("half_add", |a, b, _| a + b),
        ("half_mul", |a, b, _| a * b),
        ("half_fma", |a, b, c| a * b + c),
        ("half_min", |a, b, _| a.min(b)),
        ("half_max_nan", |a, b, _| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }),
        ("half_relu", |a, b, c| {
            let v = a * b + c;
            if v < 0.0 { 0.0 } else { v }
        }),
    ];
    let check = |name: &str, got: u16, want: f64, value: fn(u16) -> f64| {
        let near = [got.wrapping_sub(1), got, got.wrapping_add(1)].map(value);
        let best = near.iter().all(|it| it.is_nan() || (it - want).abs() >= (near[1] - want).abs());
        let fine = near[1].is_nan() && want.is_nan()
            || near[1] == want
            || near[1].is_infinite() && want.abs() > 6e4
            || best;
        assert!(fine, "{name}: {got:#x} = {} for {want}", near[1]);
    };
    let of_half = |it: u16| f16::from_bits(it).to_f64();
    let of_bf = |it: u16| bf16::from_bits(it).to_f64();
    let check_all = |name: &str, exact: Exact, value: fn(u16) -> f64| {
        let got: Vec<u16> = apply(&module, name, &x, n, n as u32);
        for (got, x) in got.iter().zip(x.chunks(3)) {
            check(name, *got, exact(value(x[0]), value(x[1]), value(x[2])), value);
        }
    };
    f16s.into_iter().for_each(|(name, exact)| check_all(name, exact, of_half));
    let bf16s: [(&str, Exact); 4] = [
        ("bf_add", |a, b, _| a + b),
        ("bf_mul", |a, b, _| a * b),
        ("bf_fma", |a, b, c| a * b + c),
        ("bf_max", |a, b, _| a.max(b)),
    ];
    bf16s.into_iter().for_each(|(name, exact)| check_all(name, exact, of_bf));
    // Pairs are two halves.
    for (pair, one) in [("half2_fma", "half_fma"), ("bf2_fma", "bf_fma"), ("half2_add", "half_add")]
    {
        let words: Vec<u32> = x.iter().map(|it| u32::from(*it) | u32::from(x[2]) << 16).collect();
        let both: Vec<u32> = apply(&module, pair, &words, n, n as u32);
        let alone: Vec<u16> = apply(&module, one, &x, n, n as u32);
        assert!(both.iter().zip(&alone).all(|(both, alone)| *both as u16 == *alone), "{pair}");
    }
}

#[test]
fn floats_are_converted_as_their_modes_say() {
    let module = module("conversions.sm_90a");
    let pairs = [
        [1.0f32, -2.0],
        [1.0 / 3.0, 65520.0],
        [-0.7, 1e-8],
        [70000.0, -3.5],
        [2.5, 1e30],
        [f32::NAN, f32::INFINITY],
        [-1e-40, 300.0],
        [-129.5, 0.1],
        [3.3895e38, -1e30],
    ];
    let x: Vec<f32> = pairs.concat();
    let n = pairs.len();
    let got: Vec<u32> = apply(&module, "from_float", &x, 16 * n, n as u32);
    for (pair, got) in pairs.iter().zip(got.chunks(16)) {
        let [a, b] = *pair;
        let relu = |it: f32| if it < 0.0 { 0.0 } else { it };
        let half =
            |it: f32| u32::from(if it.is_nan() { 0x7FFF } else { f16::from_f32(it).to_bits() });
        let bf =
            |it: f32| u32::from(if it.is_nan() { 0x7FFF } else { bf16::from_f32(it).to_bits() });
        // Cutting the lower bits off rounds towards zero.
        let cut = if a.is_nan() { 0x7FFF } else { a.to_bits() >> 16 };
        let half_cut = [0, 1]
            .map(|down| half(a).wrapping_sub(down))
            .into_iter()
            .find(|it| f16::from_bits(*it as u16).to_f32().abs() <= a.abs() || a.is_nan());
        let within =
            |least: f32, most: f32, it: f32| if it.is_nan() { 0.0 } else { it.clamp(least, most) };
        let tf32 = if a.is_nan() { 0x7FFF_FFFF } else { (a.to_bits() + 0x1000) & 0xFFFF_E000 };
        let want = [
            half(a),
            half_cut.unwrap(),
            bf(a),
            cut,
            bf(relu(a)),
            half(b) | half(a) << 16,
            bf(b) | bf(a) << 16,
            tf32,
            a.round_ties_even() as i32 as u32,
            a as u32,
            within(-128.0, 127.0, a).round_ties_even() as i32 as u32,
            within(-32768.0, 32767.0, a) as i32 as u32,
            a.floor() as i32 as u32,
            a.ceil() as i32 as u32,
            if a > 65504.0 { 0x7BFF } else { half(a) },
            half(relu(b)) | half(relu(a)) << 16,
        ];
        for (n, (got, want)) in got.iter().zip(want).enumerate() {
            assert_eq!(*got, want, "{n} of {a} and {b}: {got:#x} for {want:#x}");
        }
    }
}

#[test]
fn atomic_operations_lose_nothing() {
    let module = module("atomics.sm_90a");
    let mut start = [0u32; 15];
    (start[2], start[5]) = (1000, u32::MAX);
    let run = Run::new(2, 64).buffer(&start).buffer(&[5i32, -100]).buffer(&[0.5f32]);
    let run = run.buffer(&[1u64, 0]).buffer(&[0f32; 128]).run(&module, "atomics").unwrap();
    let sums: Vec<u32> = (0..4).map(|n| 2 * (n..64).step_by(4).sum::<u32>()).collect();
    let up = (0..128).fold(0u32, |it, _| if it >= 10 { 0 } else { it + 1 });
    let down = (0..128).fold(0u32, |it, _| if it == 0 || it > 6 { 6 } else { it - 1 });
    let mut want =
        vec![128, 0u32.wrapping_sub(256), 0, 127, u32::MAX, 0xFFFF_0000, 0, up, down, 384, 77];
    want.extend(&sums);
    assert_eq!(run.read::<u32>(0), want);
    assert_eq!(run.read::<i32>(1), [-127, 77]);
    assert_eq!(run.read::<f32>(2), [128.5]);
    assert_eq!(run.read::<u64>(3), [1 + (128 << 33), 127 << 20]);
    let mut old: Vec<f32> = run.read(4);
    old.sort_by(f32::total_cmp);
    assert!(old.iter().enumerate().all(|(n, it)| *it == n as f32 + 0.5));
    let run = Run::new(1, 2).buffer(&[f16::ONE, f16::ONE, f16::ZERO, f16::ZERO]);
    let run = run.buffer(&[10f32; 4]).run(&module, "packed").unwrap();
    assert_eq!(run.read::<f16>(0)[..2], [5.0, 3.0].map(f16::from_f32));
    assert_eq!(run.read::<bf16>(0)[2..], [4.0, 2.0].map(bf16::from_f32));
    assert_eq!(run.read::<f32>(1), [12.0, 14.0, 16.0, 18.0]);
}
