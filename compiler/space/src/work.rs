//! The work of a program: arithmetic operations, and compulsory memory traffic.
//!
//! In: a [`Dag`]. Out: its [`Work`] at given extents, or the [`WorkFunction`] of all extents of a bucket,
//! which a plan embeds.

use tvmtune_ir::dag::bounded::bounded_axes;
use tvmtune_ir::dag::chosen::chosen_axes;
use tvmtune_ir::dag::prefix::Prefix;
use tvmtune_ir::dag::{Compute, Dag, Expr, Subscript, TensorId, Types, UnaryOp};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::mask::dont_care;
use tvmtune_schedule::normal::normalized;

/// The minimum work of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Arithmetic on elements; a fused multiply-add counts twice, a transcendental once.
    pub flops: f64,
    /// Bytes of the parameters read and of the results written, each once.
    pub bytes: f64,
}

/// The ridge point of a CPU, in operations per byte: below it, memory limits it; an estimate.
const RIDGE_POINT: f64 = 8.0;

impl Work {
    /// Computes the work of a program at given extents of its dynamic dimensions.
    pub fn of(dag: &Dag, dims: &[i64]) -> Self {
        WorkFunction::near(dag, dims).at(dims)
    }

    /// Computes the bytes that a launch reads of a parameter.
    pub fn bytes_read(dag: &Dag, param: TensorId, dims: &[i64]) -> f64 {
        bytes_read(&normalized(dag), param).map_or(0.0, |it| it.at(dims))
    }

    /// Tells if the program is compute-bound on a CPU.
    pub fn is_compute_bound(&self) -> bool {
        self.flops > RIDGE_POINT * self.bytes
    }
}

/// The work of a program as a function of its dynamic dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFunction {
    /// Terms whose sum is the arithmetic.
    pub flops: Vec<Product>,
    /// The traffic of each tensor.
    pub bytes: Vec<Traffic>,
}

/// A number times extents.
#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub factor: f64,
    /// Extents that depend on dimensions.
    pub extents: Vec<Poly>,
}

/// The bytes of one tensor that a launch reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// The size of the tensor.
    pub all: Product,
    /// Terms whose sum is the size of the elements that are gathered, where nothing else is read: the
    /// traffic is the lesser of both. Else empty.
    pub gathered: Vec<Product>,
}

impl WorkFunction {
    /// The work of a program at extents near some. The fraction of iterations that masks leave active is
    /// sampled, and is a constant: that at these extents.
    pub fn near(dag: &Dag, dims: &[i64]) -> Self {
        let dag = &normalized(dag);
        let per_compute = dag.computes.iter().map(|it| {
            let points = executed(dag, it, dims);
            Product { factor: points.factor * flops(dag, it), ..points }
        });
        let params = dag.params().filter_map(|it| bytes_read(dag, it));
        let outputs =
            dag.outputs.iter().map(|it| Traffic { all: size(dag, *it), gathered: Vec::new() });
        Self { flops: sum(per_compute), bytes: params.chain(outputs).collect() }
    }

    /// Returns the work at given extents.
    pub fn at(&self, dims: &[i64]) -> Work {
        let flops = self.flops.iter().map(|it| it.at(dims)).sum();
        let bytes = self.bytes.iter().map(|it| it.at(dims)).sum();
        Work { flops, bytes }
    }
}

impl Product {
    /// Multiplies a number and extents, of which constant ones go into the number.
    fn new<'a>(factor: f64, extents: impl IntoIterator<Item = &'a Poly>) -> Self {
        let mut product = Self { factor, extents: Vec::new() };
        for extent in extents {
            match extent.as_constant() {
                Some(extent) => product.factor *= extent as f64,
                None => product.extents.push(extent.clone()),
            }
        }
        product
    }

    /// Returns the product at given extents of the dimensions.
    pub fn at(&self, dims: &[i64]) -> f64 {
        self.extents.iter().fold(self.factor, |product, it| product * it.eval_dims(dims) as f64)
    }
}

impl Traffic {
    /// Returns the bytes at given extents of the dimensions.
    pub fn at(&self, dims: &[i64]) -> f64 {
        let all = self.all.at(dims);
        match self.gathered.as_slice() {
            [] => all,
            gathered => gathered.iter().map(|it| it.at(dims)).sum::<f64>().min(all),
        }
    }
}

/// Collects the terms of a sum: those with the same extents become one, and zeros none.
fn sum(products: impl Iterator<Item = Product>) -> Vec<Product> {
    let mut terms: Vec<Product> = Vec::new();
    for product in products.filter(|it| it.factor != 0.0) {
        match terms.iter_mut().find(|it| it.extents == product.extents) {
            Some(term) => term.factor += product.factor,
            None => terms.push(product),
        }
    }
    terms
}

/// Returns the axes of which data choose the index, or bound it: one iteration may be all.
fn data_dependent_axes(dag: &Dag, compute: &Compute) -> Vec<usize> {
    let chosen = chosen_axes(compute, dag).into_iter().map(|it| it.0);
    chosen.chain(bounded_axes(compute, dag).into_iter().map(|it| it.axis)).collect()
}

/// Returns the number of iterations of all axes but those of which data choose the index, or bound it.
fn points(dag: &Dag, compute: &Compute, factor: f64) -> Product {
    let by_data = data_dependent_axes(dag, compute);
    let axes = compute.axes.iter().enumerate().filter(|it| !by_data.contains(&it.0));
    Product::new(factor, axes.map(|it| &it.1.extent))
}

/// Returns the number of iterations that every schedule of a program in normal form has: of a prefix scan one for each value, of
/// others those that no mask skips, without axes of which data choose the index, or bound it. Padding counts, as is usual for the work of a convolution.
pub fn min_points(dag: &Dag, compute: &Compute, dims: &[i64]) -> f64 {
    executed(dag, compute, dims).at(dims)
}

/// Returns the size of a tensor at given extents, in bytes.
pub(crate) fn bytes_of(dag: &Dag, tensor: TensorId, dims: &[i64]) -> f64 {
    size(dag, tensor).at(dims)
}

/// Returns [`min_points`] as a function of the dimensions, with the fraction that masks leave at these.
fn executed(dag: &Dag, compute: &Compute, dims: &[i64]) -> Product {
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    if let Some(prefix) = Prefix::of(compute, &shape, dag, &dag.facts()) {
        let others = compute.axes.iter().enumerate().filter(|(n, _)| *n != prefix.axis);
        return Product::new(1.0, others.map(|(_, it)| &it.extent));
    }
    let mut masks = dont_care(dag, compute);
    let bounds = bound_predicates(dag, compute);
    masks.retain(|it| !bounds.contains(it));
    points(dag, compute, active_fraction(compute, &masks, dims))
}

/// Returns the predicates of reads that are in bounds: polynomials that are then not negative.
fn bound_predicates(dag: &Dag, compute: &Compute) -> Vec<Poly> {
    let mut bounds = Vec::new();
    compute.body.walk(&mut |it| {
        let Expr::Read { tensor, index } = it else { return };
        for (subscript, extent) in index.iter().zip(&dag.tensor(*tensor).shape) {
            if let Subscript::Affine(index) = subscript {
                bounds.push(index.clone());
                bounds.push(extent.clone() - Poly::constant(1) - index.clone());
            }
        }
    });
    bounds
}

/// Returns the fraction of a compute's iterations in which all predicates hold (are not negative), on
/// an evenly spaced sample.
fn active_fraction(compute: &Compute, predicates: &[Poly], dims: &[i64]) -> f64 {
    let depends = |axis: &usize| predicates.iter().any(|it| it.mentions(VarId(*axis as u32)));
    let axes: Vec<usize> = (0..compute.axes.len()).filter(depends).collect();
    let max_samples = match axes.len() {
        0..=1 => 4096,
        2 => 128,
        3 => 32,
        _ => 8,
    };
    let mut samples = vec![vec![0; compute.axes.len()]];
    for axis in axes {
        let extent = compute.axes[axis].extent.eval_dims(dims).max(1);
        let n_samples = extent.min(max_samples);
        let with_axis = |sample: &Vec<i64>, n: i64| {
            let mut sample = sample.clone();
            sample[axis] = (2 * n + 1) * extent / (2 * n_samples);
            sample
        };
        samples =
            samples.iter().flat_map(|it| (0..n_samples).map(move |n| with_axis(it, n))).collect();
    }
    let is_executed = |sample: &&Vec<i64>| {
        let value = |it: &Poly| it.eval(&|it| dims[it.0 as usize], &|it| sample[it.0 as usize]);
        predicates.iter().all(|it| value(it) >= 0)
    };
    samples.iter().filter(is_executed).count() as f64 / samples.len() as f64
}

/// Counts the arithmetic of one iteration on values of the element type: index arithmetic and bound
/// checks are not the program's work.
fn flops(dag: &Dag, compute: &Compute) -> f64 {
    let is_float = Types::tensor(dag, compute.tensor).is_float();
    let mut n = usize::from(compute.reducer.is_some());
    compute.body.walk(&mut |it| {
        // Rounding to TF32 is a conversion.
        let converts = matches!(it, Expr::Unary(UnaryOp::Tf32, _));
        let arithmetic = matches!(it, Expr::Unary(..) | Expr::Binary(..)) && !converts;
        n += usize::from(arithmetic && it.dtype(dag).is_float() == is_float);
    });
    n as f64
}

/// Returns the traffic of a parameter: its size, or at most that of the gathered elements where it is only
/// gathered from. Returns `None` if nothing reads it.
fn bytes_read(dag: &Dag, param: TensorId) -> Option<Traffic> {
    let element = dag.tensor(param).dtype.bytes() as f64;
    let (mut gathered, mut is_read, mut is_whole) = (Vec::new(), false, false);
    for compute in &dag.computes {
        let by_data = data_dependent_axes(dag, compute);
        let is_gathered = |it: &Subscript| match it {
            Subscript::Value(_) => true,
            Subscript::Affine(it) => by_data.iter().any(|n| it.mentions(VarId(*n as u32))),
        };
        compute.body.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it
                && *tensor == param
            {
                is_read = true;
                if index.iter().any(is_gathered) {
                    gathered.push(points(dag, compute, element));
                } else {
                    is_whole = true;
                }
            }
        });
    }
    let gathered = if is_whole { Vec::new() } else { sum(gathered.into_iter()) };
    is_read.then(|| Traffic { all: size(dag, param), gathered })
}

/// Returns the size of a tensor in bytes.
fn size(dag: &Dag, tensor: TensorId) -> Product {
    Product::new(Types::tensor(dag, tensor).bytes() as f64, &dag.tensor(tensor).shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    #[test]
    fn flattened_axes_with_masks_are_sampled_as_axes_of_their_own() {
        let points = |sum: &str| {
            let dag = dsl::program(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 16>, w: Tensor<f32, 4, 3>) -> Tensor<f32, 32> {{
                     compute(|i| {sum})
                 }}"
            ))
            .unwrap();
            let dag = normalized(&dag);
            min_points(&dag, &dag.computes[0], &[])
        };
        let flat = "sum(0..12, |k| if (i + k % 3) % 2 == 0 { x[[k / 3, i / 2]] * w[[k / 3, k % 3]] } else { 0.0 })";
        let own = "sum((0..4, 0..3), |c, s| if (i + s) % 2 == 0 { x[[c, i / 2]] * w[[c, s]] } else { 0.0 })";
        assert_eq!(points(flat), points(own));
    }

    #[test]
    fn of_terms_that_data_bound_one_may_be_all() {
        let points = |condition: &str| {
            let dag = dsl::program(&format!(
                "#[autotune]
                 fn f(len: Tensor<i64, 8>, x: Tensor<f32, 8, 100>) -> Tensor<f32, 8> {{
                     compute(|b| sum(0..100, |l| if {condition} {{ x[[b, l]] }} else {{ 0.0 }}))
                 }}"
            ))
            .unwrap();
            min_points(&dag, &dag.computes[0], &[])
        };
        assert_eq!(points("(l as i64) < len[[b]]"), 8.0);
        assert_eq!(points("x[[b, l]] > 0.0"), 800.0);
    }

    #[test]
    fn masked_iterations_are_no_work() {
        let attention = |mask: &str| {
            let dag = dsl::program(&format!(
                "#[autotune(dims(H = 4, S = 1..=512, T = 1..=512, D = 64))]
                fn attention(q: Tensor<f16, H, S, D>, k: Tensor<f16, H, T, D>, v: Tensor<f16, H, T, D>)
                    -> Tensor<f32, H, S, D> {{
                    let s = compute(|h, i, j| {{
                        let x = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                        if {mask} {{ x }} else {{ f32::NEG_INFINITY }}
                    }});
                    let m = compute(|h, i| max(0..T, |j| s[[h, i, j]]));
                    let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
                    let l = compute(|h, i| sum(0..T, |j| e[[h, i, j]]));
                    compute(|h, i, d| sum(0..T, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
                }}"
            ))
            .unwrap();
            move |dims: &[i64]| -> f64 {
                let products = dag.computes.iter().filter(|it| it.axes.len() == 4);
                products.map(|it| min_points(&dag, it, dims)).sum()
            }
        };
        let all = |s: f64, t: f64| 2.0 * 4.0 * 64.0 * s * t;
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
        near(attention("true || q[[h, i, 0]] as f32 > 0.0")(&[512, 512]), all(512.0, 512.0));
        near(attention("j <= i")(&[512, 512]), all(512.0, 512.0) / 2.0);
        near(attention("j > i")(&[512, 512]), all(512.0, 512.0) / 2.0);
        near(attention("j <= i + T - S")(&[512, 256]), all(512.0, 256.0) / 4.0);
        near(attention("j <= i && i < j + 64")(&[512, 512]), all(512.0, 64.0) * (1.0 - 1.0 / 16.0));
        assert_eq!(attention("j <= i")(&[1, 1]), all(1.0, 1.0));
    }

    #[test]
    fn one_function_is_the_work_at_all_extents_of_a_bucket() {
        let check = |source: &str, largest: &[i64], dims: &[i64], flops: f64, bytes: f64| {
            let dag = dsl::program(source).unwrap();
            let function = WorkFunction::near(&dag, largest);
            assert_eq!(function.at(dims), Work { flops, bytes }, "{source}");
            assert_eq!(function.at(largest), Work::of(&dag, largest), "{source}");
        };
        let linear = "#[autotune(dims(M = 1..=40, N = 24, K = 10))]
            fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) * s)
            }";
        let bytes = 4.0 * (7.0 * 10.0 + 24.0 * 10.0 + 7.0 * 24.0);
        check(linear, &[40], &[7], 7.0 * 24.0 * (2.0 * 10.0 + 1.0), bytes);
        // Of few tokens the rows that they name, of many the whole table.
        let embed = "#[autotune(dims(S = 1..=4096, V = 100, D = 8))]
            fn embed(ids: Tensor<u32, S>, table: Weight<f32, V, D>) -> Tensor<f32, S, D> {
                compute(|s, d| table.get([ids[[s]], d]).unwrap_or(0.0))
            }";
        check(embed, &[4096], &[3], 0.0, 4.0 * (3.0 + 3.0 * 8.0 + 3.0 * 8.0));
        check(embed, &[4096], &[4096], 0.0, 4.0 * (4096.0 + 800.0 + 4096.0 * 8.0));
        // Of each row the element that a label names, and that added to as many.
        let nll = "#[autotune(dims(B = 1..=64, V = 100))]
            fn nll(y: Tensor<i64, B>, x: Tensor<f32, B, V>) -> Tensor<f32, B> {
                compute(|b| sum(0..V, |v| if y[[b]] == v as i64 { x[[b, v]] } else { 0.0 }))
            }";
        check(nll, &[64], &[20], 20.0, 20.0 * (8.0 + 4.0 + 4.0));
        // Three sums of prefixes, of which each element is added once, of 20 rows.
        let prefix = "#[autotune(dims(R = 1..=40, N = 64))]
            fn cumulative(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
                compute(|r, i| sum(0..N, |j| if j <= i { x[[r, j]] } else { 0.0 }))
            }";
        check(prefix, &[40], &[20], 20.0 * 64.0, 2.0 * 4.0 * 20.0 * 64.0);
    }

    #[test]
    fn the_part_that_masks_leave_is_that_of_the_largest_extents() {
        let source = "#[autotune(dims(N = 1..=256))]
            fn lower(x: Tensor<f32, N, N>) -> Tensor<f32, N> {
                compute(|i| sum(0..N, |j| if j <= i { x[[i, j]] * x[[i, j]] } else { 0.0 }))
            }";
        let dag = dsl::program(source).unwrap();
        let function = WorkFunction::near(&dag, &[256]);
        let part = |n: f64| function.at(&[n as i64]).flops / (2.0 * n * n);
        assert!((part(256.0) - 0.5).abs() < 0.01, "{}", part(256.0));
        assert_eq!(part(2.0), part(256.0));
        assert!(Work::of(&dag, &[1]).flops > 1.9, "{:?}", Work::of(&dag, &[1]));
    }
}
