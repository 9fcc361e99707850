//! Arguments where functions change: the same each time.

/// Bit patterns of 32 bits: around every power of two, small integers and halves, specials, and
/// `n` more from everywhere.
pub fn sample(n: u32) -> Vec<u32> {
    let around = |bits: u32| (bits.saturating_sub(2)..=bits + 2).collect::<Vec<_>>();
    let powers = (0..=255_u32).flat_map(|exponent| around(exponent << 23));
    let denormals = (0..23).flat_map(|bit| around(1 << bit));
    let halves = (0..2000_u16).map(|it| (f32::from(it) / 2.0).to_bits());
    let near = halves.flat_map(around);
    // Multiples of a quarter turn, and numbers next to them.
    let turns =
        (1..40_000_u32).step_by(13).map(|it| (f64::from(it) * std::f64::consts::FRAC_PI_2) as f32);
    let angles = turns.flat_map(|it| around(it.to_bits()));
    // The closest that any float beyond 1 is to a multiple, and others close to one.
    let close = [16_367_173.0 * 4.722_366_5e21, 1e22, 5.077_419_3e33, 16_367_173.0_f32];
    let close = close.map(f32::to_bits);
    let limits = [16_777_216.0, 2_147_483_648.0, 4_294_967_296.0, 65_504.0, 65_520.0, 127.5, 255.5];
    let limits = limits.into_iter().chain([-149.0, 88.72, 104.0, 131_072.0, 2.5e7, 1e10, 1e30]);
    let limits = limits.flat_map(|it: f32| around(it.abs().to_bits()));
    let specials = [f32::INFINITY, f32::NAN, f32::MAX].into_iter().map(f32::to_bits);
    let nans = [0x7f80_0001, 0x7fff_ffff, 0x7fbf_ffff];
    let positive = powers.chain(denormals).chain(near).chain(angles).chain(close).chain(limits);
    let positive = positive.chain(specials).chain(nans).map(|it| it & 0x7fff_ffff);
    let both = positive.flat_map(|it| [it, it | 1 << 31]);
    // A multiplicative sequence visits everything evenly.
    both.chain((0..n).map(|it| it.wrapping_mul(0x9e37_79b9))).collect()
}

/// Pairs: bases of all sizes and near 1, with exponents of all sizes, integers, halves, and those
/// that make a power large or small; about `n` of the latter.
pub fn pairs(n: u32) -> Vec<(f32, f32)> {
    let mantissas = [0, 1, 0x0035_04f2, 0x0035_04f3, 0x0035_04f4, 0x007f_ffff];
    let sizes = (0..=254_u32).flat_map(|e| mantissas.map(|it| f32::from_bits(e << 23 | it)));
    let sizes: Vec<f32> = sizes.step_by(3).chain([1.0, f32::INFINITY, f32::NAN]).collect();
    let near_one =
        (0..40_i32).map(|it| f32::from_bits(0x3f80_0000_u32.wrapping_add_signed(it - 20)));
    let bases: Vec<f32> = sizes.iter().copied().chain(near_one).collect();
    let integers = (0..40_u16).map(|it| f32::from(it) / 2.0);
    let huge = [4.9e11, 5e11, 1e12, 1e30, 16_777_215.0, 16_777_216.0, 8_388_607.5];
    let powers: Vec<f32> = integers.chain(huge).chain(sizes.iter().copied().step_by(5)).collect();
    let signed = |it: &f32| [*it, -*it];
    let powers: Vec<f32> = powers.iter().flat_map(signed).collect();
    let grid = bases.iter().flat_map(signed).flat_map(|x| powers.iter().map(move |y| (x, *y)));
    grid.chain((0..n).filter_map(large_power)).collect()
}

/// A base, and an exponent whose power is between the least and the greatest number.
fn large_power(n: u32) -> Option<(f32, f32)> {
    let word = n.wrapping_mul(0x9e37_79b9);
    let x = match n % 3 {
        0 => f32::from_bits(word >> 1),
        1 => f32::from_bits(0x3f00_0000 + (word >> 8)),
        _ => f32::from_bits(0x3f80_0000_u32.wrapping_add_signed((word >> 15) as i32 - 65_536)),
    };
    let logarithm = -104.0 + 193.0 * f64::from(n.wrapping_mul(0x85eb_ca6b)) / f64::from(u32::MAX);
    let y = (logarithm / f64::from(x).ln()) as f32;
    (x.is_finite() && y.is_finite()).then_some((x, y))
}
