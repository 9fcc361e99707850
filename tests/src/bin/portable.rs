//! Times functions and products of portable code beside those of the system: the costs that
//! docs/numerics.md has. Each is the best of 7 runs over the same numbers.

use std::hint::black_box;
use std::time::Instant;

use tvmtune_runtime::math;

/// Arguments of each function.
const N: usize = 1 << 16;
/// Rows, columns and depth of the product.
const PRODUCT: [usize; 3] = [64, 256, 256];

/// A function of one number.
type Function = fn(f32) -> f32;

const FUNCTIONS: [(&str, Function, Function); 5] = [
    ("exp", f32::exp, math::exp),
    ("ln", f32::ln, math::ln),
    ("tanh", f32::tanh, math::tanh),
    ("sin", f32::sin, math::sin),
    ("erf (of libm)", libm::erff, math::erf),
];

fn main() {
    println!("| {N} values | the system's | this |\n|---|---|---|");
    let x: Vec<f32> = (0..N).map(|it| (it as f32 - N as f32 / 2.0) * 1e-3).collect();
    let mut y = vec![0.0; N];
    for (name, system, ours) in FUNCTIONS {
        let [system, ours] = [system, ours].map(|function| {
            best_ms(&mut || {
                y.iter_mut().zip(&x).for_each(|(y, x)| *y = function(*x));
                black_box(&y);
            })
        });
        println!("| {name} | {system:.2} ms | {ours:.2} ms |");
    }
    let rounded = product(|a, b, sum| a * b + sum);
    let contracted = product(math::fma);
    println!("| product of {PRODUCT:?} | {rounded:.1} ms | {contracted:.1} ms |");
}

/// The time of a product whose inner loop runs over columns, with this for each of its terms.
fn product(term: impl Fn(f32, f32, f32) -> f32) -> f64 {
    let [rows, columns, depth] = PRODUCT;
    let x: Vec<f32> = (0..rows * depth).map(|it| (it % 17) as f32 * 0.1).collect();
    let w: Vec<f32> = (0..depth * columns).map(|it| (it % 13) as f32 * 0.1).collect();
    let mut y = vec![0.0; rows * columns];
    best_ms(&mut || {
        y.fill(0.0);
        for (x, y) in x.chunks(depth).zip(y.chunks_mut(columns)) {
            for (x, w) in x.iter().zip(w.chunks(columns)) {
                y.iter_mut().zip(w).for_each(|(y, w)| *y = term(*x, *w, *y));
            }
        }
        black_box(&y);
    })
}

fn best_ms(run: &mut dyn FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..7).map(time).fold(f64::INFINITY, f64::min)
}
