//! The normal form of what programs write in several ways, so that templates and analyses see one of them. A
//! schedule starts with its program in this form; results are the same, bit by bit, but for the order of a sum that
//! has fewer terms, and what a mask hides ([`crate::mask`]).
//!
//! ```text
//! if k > i || k + 4 <= i { 0 } else { t }    =>   if k <= i && k + 4 > i { t } else { 0 }   choice
//! sum(k < 9, x[i + k / 3, j + k % 3])        =>   sum((r, s) < (3, 3), x[i + r, j + s])     flattened
//! y[i, c] = sum(j, e[c / 64, i, j] * v[j, c])  =>  y[i, h, d] = sum(j, e[h, i, j] * v[j, 64 * h + d])
//! sum((l, m) < (4, 8), x[i, 8 * l + m])      =>   sum(k < 32, x[i, k])                      merged
//! sum(k < 32, if k >= 8 { x[i, k] } else 0)  =>   sum(k < 24, x[i, k + 8])                  masked
//! ```
//!
//! Axes of a tensor that a program defines are rewritten in the same way: its elements lie in memory as they
//! did, in a shape that has more dimensions, or fewer. Those of parameters stay as they were declared.
//!
//! In: a dag. Out: the dag of its schedules.

mod choice; // constants of choices
mod flattened; // axes that are several
mod masked; // axes that are shorter
mod merged; // axes that are one

use std::ops::Range;

use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Compute, ComputeAxis, ComputeId, Dag, Expr, Numerics, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// Returns a program in normal form.
pub fn normalized(dag: &Dag) -> Dag {
    let mut dag = dag.clone();
    if dag.kernel_template.is_some() {
        return dag;
    }
    for compute in &mut dag.computes {
        compute.body = choice::chosen_first(&compute.body);
    }
    // Each step leaves fewer divisions, fewer axes or fewer iterations.
    while let Some(step) =
        flattened::without(&dag).or_else(|| merged::without(&dag)).or_else(|| masked::without(&dag))
    {
        dag = step;
    }
    dag
}

/// An edit of adjacent axes of a compute: those of an index become its digits, or the other way round.
struct Edit {
    /// The first axis.
    at: usize,
    /// The number of axes that it replaces.
    n_old: usize,
    /// The new axes.
    new: Vec<ComputeAxis>,
    /// The old variables, by the new ones.
    values: Vec<Poly>,
}

impl Edit {
    /// Returns the compute with the new axes.
    fn apply(&self, compute: &Compute, dims: &Facts) -> Compute {
        let Self { at, n_old, new, values } = self;
        let mut edited = compute.clone();
        edited.axes.splice(*at..at + n_old, new.iter().cloned());
        if *at < compute.n_spatial {
            edited.n_spatial = compute.n_spatial + new.len() - n_old;
        }
        let value = |it: VarId| match it.0 as usize {
            n if n < *at => Poly::var(it),
            n if n < at + n_old => values[n - at].clone(),
            n => Poly::var(VarId((n + new.len() - n_old) as u32)),
        };
        let facts = edited.facts(dims);
        edited.body = compute.body.map_polys(&mut |it| {
            rejoined(&it.substitute_vars(&|it| Some(value(it)), &facts), &facts)
        });
        edited
    }

    /// Replaces a compute by its edited form, and the tensor that it defines. The reads of the tensor stay.
    fn apply_to(&self, dag: &mut Dag, compute: ComputeId) {
        let n = compute.0 as usize;
        let edited = self.apply(&dag.computes[n], &dag.facts());
        let tensor = &mut dag.tensors[edited.tensor.0 as usize];
        tensor.shape = edited.axes[..edited.n_spatial].iter().map(|it| it.extent.clone()).collect();
        if let Some(order) = dag.orders.get_mut(n) {
            order.move_axes(self.at, self.new.len() as isize - self.n_old as isize);
        }
        dag.computes[n] = edited;
    }
}

/// Returns a polynomial with `v` for each `n * (v / n) + v % n`.
fn rejoined(poly: &Poly, facts: &Facts) -> Poly {
    let inside = |atom: &Atom| match atom {
        Atom::Div(a, by) => rejoined(a, facts).div(by, facts),
        Atom::Mod(a, by) => rejoined(a, facts).modulo(by, facts),
        other => Poly::atom(other.clone()),
    };
    let term = |(atoms, n): (&[Atom], i64)| {
        atoms.iter().fold(Poly::constant(n), |product, it| product * inside(it))
    };
    let poly = poly.terms().map(term).fold(Poly::default(), |sum, it| sum + it);
    let mut joined = poly.clone();
    for (atoms, n) in poly.terms() {
        let [Atom::Mod(value, by)] = atoms else { continue };
        let Some(divisor) = by.as_constant() else { continue };
        let quotient = [Atom::Div(value.clone(), by.clone())];
        if poly.terms().any(|it| it == (&quotient[..], n * divisor)) {
            let [quotient] = quotient;
            joined += (**value).clone() * n
                - Poly::atom(quotient) * (n * divisor)
                - Poly::atom(atoms[0].clone()) * n;
        }
    }
    joined
}

/// Returns whether the axes of the tensor that a compute defines may be others: a tensor in the memory of a
/// parameter has its shape, and the order of a recurrence is that of one axis.
fn may_reshape(dag: &Dag, compute: &Compute) -> bool {
    !compute.is_recurrent() && !dag.in_place().any(|(_, new)| new == compute.tensor)
}

/// Returns whether the axes of a compute's sum may be others: where numerics are fixed, they define the order
/// of the sum.
fn may_reorder(dag: &Dag) -> bool {
    dag.numerics == Numerics::Free
}

/// Replaces subscripts of adjacent dimensions of a tensor, also inside of subscripts; `None` where one of them
/// comes from data.
fn replace_subscripts(
    value: &Expr,
    tensor: TensorId,
    dimensions: Range<usize>,
    replacement: &dyn Fn(&[Poly]) -> Vec<Poly>,
) -> Option<Expr> {
    let mut is_affine = true;
    let value = value.map_children(&mut |it| {
        let replaced = replace_subscripts(it, tensor, dimensions.clone(), replacement);
        is_affine &= replaced.is_some();
        replaced.unwrap_or_else(|| it.clone())
    });
    match value {
        Expr::Read { tensor: read, mut index } if read == tensor => {
            let new = replacement(&affine(&index[dimensions.clone()])?);
            index.splice(dimensions.clone(), new.into_iter().map(Subscript::Affine));
            is_affine.then_some(Expr::Read { tensor, index })
        }
        other => is_affine.then_some(other),
    }
}

/// Returns the number of quotients and remainders in a value.
fn n_divisions(value: &Expr) -> usize {
    let mut n = 0;
    value.for_each_poly(&mut |poly| poly.for_each_division(&mut |_, _| n += 1));
    n
}
#[cfg(test)]
mod tests {
    use crate::{Schedule, Stage};
    use tvmtune_ir::dag::DType;
    use tvmtune_ir::dsl;
    use tvmtune_ir::interp::{self, Array};

    /// Returns the only stage of a program as text, in the variables of its axes.
    fn stage(text: &str) -> String {
        let dag = dsl::program(text).unwrap();
        let schedule = Schedule::new(&dag);
        let compute = &schedule.stages.last().unwrap().compute;
        let extents: Vec<String> = compute.axes.iter().map(|it| it.extent.to_string()).collect();
        format!("{} {:?}", extents.join(" "), compute.body)
    }

    fn conv(sum: &str) -> String {
        stage(&format!(
            "#[autotune]
             fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 8, 4, 3, 3>) -> Tensor<f32, 8, 7, 7> {{
                 compute(|o, y, p| {sum})
             }}"
        ))
    }

    #[test]
    fn flattened_axes_are_axes_of_their_own() {
        let own = conv("sum((0..4, 0..3, 0..3), |c, r, s| x[[c, y + r, p + s]] * w[[o, c, r, s]])");
        for flat in [
            "sum((0..4, 0..9), |c, t| x[[c, y + t / 3, p + t % 3]] * w[[o, c, t / 3, t % 3]])",
            "sum(0..36, |k| x[[k / 9, y + k / 3 % 3, p + k % 3]] * w[[o, k / 9, k / 3 % 3, k % 3]])",
            "sum(0..36, |k| x[[k / 9, y + k % 9 / 3, p + k % 3]] * w[[o, k / 9, k % 9 / 3, k % 3]])",
            "sum((0..12, 0..3), |q, s| x[[q / 3, y + q % 3, p + s]] * w[[o, q / 3, q % 3, s]])",
        ] {
            assert_eq!(conv(flat), own, "{flat}");
        }
    }

    #[test]
    fn taps_of_transposed_convolutions_are_axes_of_their_own() {
        let conv = |sum: &str| {
            stage(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 4, 3, 3>) -> Tensor<f32, 18, 18> {{
                     compute(|y, p| {sum})
                 }}"
            ))
        };
        let own = conv(
            "sum((0..4, 0..3, 0..3), |c, r, s| if (y + 9 - r) % 2 == 0 && (p + 9 - s) % 2 == 0 {
                x.get([c, (y + 9 - r) / 2 - 4, (p + 9 - s) / 2 - 4]).unwrap_or(0.0) * w[[c, r, s]]
            } else { 0.0 })",
        );
        let flat = conv(
            "sum((0..4, 0..9), |c, t| if (y + 9 - t / 3) % 2 == 0 && (p + 9 - t % 3) % 2 == 0 {
                x.get([c, (y + 9 - t / 3) / 2 - 4, (p + 9 - t % 3) / 2 - 4]).unwrap_or(0.0)
                    * w[[c, t / 3, t % 3]]
            } else { 0.0 })",
        );
        assert_eq!(flat, own);
    }

    /// Returns all stages of a program as text.
    fn stages(text: &str) -> Vec<String> {
        let dag = dsl::program(text).unwrap();
        let body = |it: &Stage| {
            let extents = it.compute.axes.iter().map(|it| it.extent.to_string());
            format!("{} {:?}", extents.collect::<Vec<_>>().join(" "), it.compute.body)
        };
        Schedule::new(&dag).stages.iter().map(body).collect()
    }

    #[test]
    fn results_get_the_axes_that_a_program_has_flattened_or_split() {
        // Rows first, the activation reads the convolution at its own index.
        let conv = |shape: &str, axes: &str, [o, y, p]: [&str; 3], of_bias: &str| {
            stages(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 8, 4, 3, 3>, bias: Tensor<f32, 8>)
                     -> Tensor<f32, {shape}> {{
                     let z: Tensor<f32, {shape}> = compute(|{axes}| sum((0..4, 0..3, 0..3), |c, r, s|
                         x[[c, {y} + r, {p} + s]] * w[[{o}, c, r, s]]));
                     compute(|{axes}| (z[[{axes}]]).max(bias[[{of_bias}]]))
                 }}"
            ))
        };
        let own = conv("8, 7, 7", "o, y, p", ["o", "y", "p"], "o");
        assert_eq!(conv("8, 49", "o, q", ["o", "q / 7", "q % 7"], "o"), own);
        assert_eq!(conv("392", "q", ["q / 49", "q / 7 % 7", "q % 7"], "q / 49"), own);
        assert_eq!(conv("2, 4, 7, 7", "a, b, y, p", ["(4 * a + b)", "y", "p"], "a")[0], own[0]);
    }

    #[test]
    fn programs_in_normal_form_have_the_elements_of_the_program() {
        let numbers = |shape: &[u64]| Array::whole_numbers(DType::F32, shape, 5);
        for (shape, axes, o, q, bias) in [
            ("8, 49", "o, q", "o", "q", "o"),
            ("392", "r", "(r / 49)", "(r % 49)", "r / 49"),
            ("2, 4, 7, 7", "a, b, y, p", "(4 * a + b)", "(7 * y + p)", "2 * b + a"),
            ("2, 4, 49", "a, b, q", "(4 * a + b)", "q", "b"),
        ] {
            let dag = dsl::program(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 8, 4, 3, 3>, bias: Tensor<f32, 8>)
                     -> Tensor<f32, {shape}> {{
                     let z: Tensor<f32, {shape}> = compute(|{axes}| sum((0..4, 0..9), |c, t|
                         x[[c, {q} / 7 + t / 3, {q} % 7 + t % 3]] * w[[{o}, c, t / 3, t % 3]]));
                     compute(|{axes}| z[[{axes}]] * 2.0 + bias[[{bias}]])
                 }}"
            ))
            .unwrap();
            let normal = Schedule::new(&dag).dag;
            assert_ne!(normal.tensors, dag.tensors, "{shape}");
            let params = [numbers(&[4, 9, 9]), numbers(&[8, 4, 3, 3]), numbers(&[8])];
            let elements = |dag| interp::run(dag, &[], &params, &[]).remove(0).to_f32_vec();
            assert_eq!(elements(&normal), elements(&dag), "{shape}");
        }
    }

    #[test]
    fn readers_of_a_part_of_a_tensor_have_all_their_elements() {
        for rows in [4, 5] {
            let dag = dsl::program(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 5, 14>) -> Tensor<f32, {rows}> {{
                     let z: Tensor<f32, 14, 5> =
                         compute(|i, j| sum(0..3, |k| x[[j, i / 2]] - x[[j, 13 - i]]));
                     compute(|i| z[[i, i]])
                 }}"
            ))
            .unwrap();
            let params = [Array::whole_numbers(DType::F32, &[5, 14], 5)];
            let elements = |dag| interp::run(dag, &[], &params, &[]).remove(0).to_f32_vec();
            assert_eq!(elements(&Schedule::new(&dag).dag), elements(&dag), "{rows}");
        }
    }

    #[test]
    fn readers_at_other_indices_keep_their_axes() {
        let conv = |shape: &str, axes: &str, y: &str, p: &str, z: &str| {
            stages(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 9, 9>, w: Tensor<f32, 3, 3>) -> Tensor<f32, 3, 3> {{
                     let z: Tensor<f32, {shape}> = compute(|{axes}| sum((0..3, 0..3), |r, s|
                         x[[{y} + r, {p} + s]] * w[[r, s]]));
                     compute(|i, j| max((0..2, 0..2), |a, b| z[[{z}]]))
                 }}"
            ))
        };
        let own = conv("7, 7", "y, p", "y", "p", "2 * i + a, 2 * j + b");
        let flat = conv("49", "q", "(q / 7)", "(q % 7)", "(2 * i + a) * 7 + 2 * j + b");
        assert_eq!(flat, own);
        // Every second element of a row that goes on in the next has no own axes, so the sum is as written.
        let strided = conv("49", "q", "(q / 7)", "(q % 7)", "16 * i + 8 * a + 3 * j + b");
        assert!(strided[0].starts_with("49 3 3 "), "{strided:?}");
    }

    #[test]
    fn axes_of_one_index_are_one() {
        let own = conv("sum((0..4, 0..3, 0..3), |c, r, s| x[[c, y + r, p + s]] * w[[o, c, r, s]])");
        let split = "sum((0..2, 0..2, 0..3, 0..3), |d, e, r, s|
            x[[2 * d + e, y + r, p + s]] * w[[o, 2 * d + e, r, s]])";
        assert_eq!(conv(split), own);
        // Digits that are indices of their own as well are axes of their own.
        for other in ["w[[o, 2 * d + e, r, e]]", "w[[o, e, r, s]]", "w[[o, d + e, r, s]]"] {
            let apart = split.replace("w[[o, 2 * d + e, r, s]]", other);
            assert!(conv(&apart).starts_with("8 7 7 2 2 3 3 "), "{apart}: {}", conv(&apart));
        }
    }

    /// Stages of attention whose heads are an axis, or a part of the channels.
    fn attention(shape: &str, axes: &str, [h, c]: [&str; 2]) -> Vec<String> {
        stages(&format!(
            "#[autotune(dims(T = 1..=99))]
             fn f(q: Tensor<f32, T, 192>) -> Tensor<f32, T, {shape}> {{
                 let s: Tensor<f32, 3, T, T> = compute(|h, i, j| sum(0..32, |d| q[[i, 32 * h + d]] * q[[j, 96 + 32 * h + d]]));
                 let o: Tensor<f32, T, {shape}> =
                     compute(|i, {axes}| sum(0..T, |j| s[[{h}, i, j]] * q[[j, {c}]]));
                 compute(|i, {axes}| o[[i, {axes}]] / 2.0)
             }}"
        ))
    }

    #[test]
    fn channels_of_several_heads_are_axes_of_their_own() {
        let own = attention("3, 32", "h, d", ["h", "96 + 32 * h + d"]);
        assert_eq!(attention("96", "c", ["c / 32", "96 + c"]), own);
        // The heads of a group share their keys.
        let scores = |heads: &str, axes: &str, [h, g]: [&str; 2]| {
            stages(&format!(
                "#[autotune(dims(T = 1..=99))]
                 fn f(q: Tensor<f32, 12, 16>, k: Tensor<f32, 3, T, 16>) -> Tensor<f32, {heads}, T> {{
                     let s: Tensor<f32, {heads}, T> =
                         compute(|{axes}, j| sum(0..16, |d| q[[{h}, d]] * k[[{g}, j, d]]));
                     compute(|{axes}, j| s[[{axes}, j]] / 2.0)
                 }}"
            ))
        };
        assert_eq!(scores("12", "h", ["h", "h / 4"]), scores("3, 4", "g, r", ["4 * g + r", "g"]));
    }

    #[test]
    fn elements_that_repeat_are_those_of_one_axis() {
        for (last, is_split) in [("q / 2", false), ("q / 16 + 1", false), ("q / 16", true)] {
            let text = stage(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 32>, w: Tensor<f32, 4, 64>) -> Tensor<f32, 64> {{
                     compute(|q| sum(0..4, |c| x[[c, {last}]] * w[[c, q]]))
                 }}"
            ));
            assert_eq!(text.starts_with("4 16 4 "), is_split, "{text}");
        }
    }

    #[test]
    fn what_is_no_flattened_axis_stays() {
        let axes = |sum: &str| conv(sum).split(" Binary").next().unwrap_or_default().len();
        let of_two = axes("sum((0..4, 0..8), |c, t| x[[c, y, p]] * w[[o, c, 0, 0]])");
        for sum in [
            // 8 is no multiple of 3.
            "sum((0..4, 0..8), |c, t| x[[c, y + t / 3, p + t % 3]] * w[[o, c, t / 3, t % 3]])",
            // Neither of 4 and 6 divides the other.
            "sum((0..4, 0..12), |c, t| x[[c, y + t / 6, p + t / 6]] * w[[o, t / 4, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + (t + c) / 8, p]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + t / 4, p]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + (t % 4 + 1) / 3, p + t / 4]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + t % 2, p]] * w[[o, c, 0, 0]])",
        ] {
            assert!(axes(sum) <= of_two + 1, "{sum}: {}", conv(sum));
        }
    }

    #[test]
    fn choices_have_their_constant_behind() {
        let triangle = |term: &str| {
            stage(&format!(
                "#[autotune]
                 fn f(a: Tensor<f32, 8, 8>) -> Tensor<f32, 8> {{ compute(|i| sum(0..8, |k| {term})) }}"
            ))
        };
        let first = triangle("if k <= i && k + 3 > i { a[[i, k]] } else { 0.0 }");
        for term in [
            "if k > i || k + 3 <= i { 0.0 } else { a[[i, k]] }",
            "if !(k <= i && k + 3 > i) { 0.0 } else { a[[i, k]] }",
        ] {
            assert_eq!(triangle(term), first, "{term}");
        }
        // Of floats, the opposite of `<` is not `>=`.
        let by_data = "if a[[i, k]] < 1.0 { 0.0 } else { a[[i, k]] }";
        assert!(triangle(by_data).contains("Lt"), "{}", triangle(by_data));
    }
}
