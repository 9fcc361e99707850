//! Axes with iterations that a mask leaves out for every element.
//!
//! ```text
//! s[t] = if t + 9 >= T { x[t] } else { -inf },  max(t < T, s[t])
//!     =>   s[t] = x[t + b],  max(t < T - b, s[t]),  b = max(T - 9, 0)
//! ```
//!
//! A reduction ends up with the iterations that count. A tensor of which all readers read the same part along
//! an axis ends up with that part.

use super::{Edit, may_reorder, may_reshape, replace_subscripts};
use crate::{Schedule, StageId};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Compute, ComputeAxis, ComputeId, Dag, Expr, TensorId};
use tvmtune_ir::poly::{Facts, Interval, Poly, VarId};

/// The iterations `first..first + count` of an axis.
#[derive(PartialEq)]
struct Part {
    first: Poly,
    count: Poly,
}

/// Returns a program with the first such axis shortened; `None` if there is none.
pub(super) fn without(dag: &Dag) -> Option<Dag> {
    if !may_reorder(dag) {
        return None;
    }
    let mut shortened = shortened_reduction(dag).or_else(|| shortened_tensor(dag))?;
    // Conditions that hold in all iterations that are left go.
    let ranges: Vec<Interval> = dag.dims.iter().map(|it| it.range).collect();
    shortened = shortened.specialize(&ranges);
    Some(shortened)
}

/// Shortens an axis of a reduction, of the last compute that has one.
fn shortened_reduction(dag: &Dag) -> Option<Dag> {
    let chooses = |it: &Compute| it.body.any(&mut |it| matches!(it, Expr::Compare(..)));
    if !dag.computes.iter().any(chooses) {
        return None;
    }
    // The sum of exponentials goes before the maximum that they are proven by.
    let schedule = Schedule::of_normal_form(dag.clone());
    dag.compute_ids().rev().find_map(|id| {
        let compute = dag.compute(id);
        compute.reducer?;
        let masks = schedule.masks_of_axes(StageId(id.0));
        let (at, part) = (compute.n_spatial..compute.axes.len())
            .find_map(|at| Some((at, unmasked(compute, at, &masks, &dag.facts())?)))?;
        let mut dag = dag.clone();
        Edit::shorten(dag.compute(id), at, &part).apply_to(&mut dag, id);
        Some(dag)
    })
}

/// Returns the part of an axis that masks leave for some element; `None` if that is the whole, or may be empty.
fn unmasked(compute: &Compute, at: usize, masks: &[Poly], dims: &Facts) -> Option<Part> {
    let facts = compute.facts(dims);
    let extent = &compute.axes[at].extent;
    let (mut first, mut end) = (Poly::default(), extent.clone());
    for mask in masks.iter().filter(|it| !it.is_nonnegative(&facts)) {
        let Some((step, rest)) = mask.split_linear(VarId(at as u32)) else { continue };
        match step.as_constant() {
            _ if rest.has_vars() => {}
            Some(1) => first = first.greater(&-rest, dims),
            Some(-1) => end = end.lesser(&(rest + Poly::constant(1)), dims),
            _ => {}
        }
    }
    let count = end - first.clone();
    let is_shorter = count != *extent && count.is_positive(dims);
    is_shorter.then_some(Part { first, count })
}

/// Shortens an axis of a tensor that is no output, if its readers read no more.
fn shortened_tensor(dag: &Dag) -> Option<Dag> {
    dag.compute_ids().find_map(|id| {
        let compute = dag.compute(id);
        if dag.outputs.contains(&compute.tensor) || !may_reshape(dag, compute) {
            return None;
        }
        (0..compute.n_spatial).find_map(|at| shorten_tensor(dag, id, at))
    })
}

fn shorten_tensor(dag: &Dag, id: ComputeId, at: usize) -> Option<Dag> {
    let compute = dag.compute(id);
    let readers = dag.consumers(compute.tensor);
    let part = common_part(dag, &readers, compute.tensor, at)?;
    let (extent, facts) = (&compute.axes[at].extent, dag.facts());
    let behind = extent.clone() - part.first.clone() - part.count.clone();
    let is_inside = part.first.is_nonnegative(&facts) && behind.is_nonnegative(&facts);
    if part.count == *extent || !is_inside {
        return None;
    }
    let mut dag = dag.clone();
    Edit::shorten(dag.compute(id), at, &part).apply_to(&mut dag, id);
    let moved = |index: &[Poly]| vec![index[0].clone() - part.first.clone()];
    for reader in readers {
        let body = &dag.compute(reader).body;
        let body = replace_subscripts(body, compute.tensor, at..at + 1, &moved)?;
        dag.computes[reader.0 as usize].body = body;
    }
    Some(dag)
}

/// Returns the part of a tensor's axis that all reads go through one by one, if it is the same.
fn common_part(dag: &Dag, readers: &[ComputeId], tensor: TensorId, at: usize) -> Option<Part> {
    let mut parts: Vec<Option<Part>> = Vec::new();
    for reader in readers {
        let reader = dag.compute(*reader);
        reader.body.for_each_read(&mut |read, index| {
            if read == tensor {
                let subscript = affine(&index[at..=at]);
                parts.push(subscript.and_then(|it| part_read(reader, &it[0])));
            }
        });
    }
    let first = parts.pop()??;
    parts.iter().all(|it| it.as_ref() == Some(&first)).then_some(first)
}

/// Returns the part that a subscript goes through along one axis of its compute.
fn part_read(reader: &Compute, subscript: &Poly) -> Option<Part> {
    (0..reader.axes.len()).find_map(|axis| {
        let (step, first) = subscript.split_linear(VarId(axis as u32))?;
        let is_part = step.as_constant() == Some(1) && !first.has_vars();
        is_part.then(|| Part { first, count: reader.axes[axis].extent.clone() })
    })
}

impl Edit {
    /// Replaces an axis by a part of it.
    fn shorten(compute: &Compute, at: usize, part: &Part) -> Self {
        let name = compute.axes[at].name.clone();
        let value = Poly::var(VarId(at as u32)) + part.first.clone();
        let axis = ComputeAxis { name, extent: part.count.clone() };
        Self { at, n_old: 1, new: vec![axis], values: vec![value] }
    }
}

#[cfg(test)]
mod tests {
    use crate::Schedule;
    use tvmtune_ir::dag::{DType, Dag, Dim, Expr};
    use tvmtune_ir::dsl;
    use tvmtune_ir::interp::{self, Array};

    /// A step of attention in a window of the last 9 tokens.
    fn step(mask: &str) -> Dag {
        dsl::program(&format!(
            "#[autotune(dims(T = 1..=20, U = T..=30))]
             fn f(q: Tensor<f32, 2, 4>, k: Tensor<f32, U, 4>, v: Tensor<f32, U, 4>) -> Tensor<f32, 2, 4> {{
                 let s: Tensor<f32, 2, T> = compute(|h, t| {mask});
                 let m = compute(|h| max(0..T, |t| s[[h, t]]));
                 let e = compute(|h, t| exp(s[[h, t]] - m[[h]]));
                 let n = compute(|h| sum(0..T, |t| e[[h, t]]));
                 compute(|h, d| sum(0..T, |t| e[[h, t]] * v[[t, d]]) / n[[h]])
             }}"
        ))
        .unwrap()
    }

    /// The extents of all axes of a program in normal form.
    fn extents(dag: &Dag) -> String {
        let axes = |it: &crate::Stage| {
            let extents = it.compute.axes.iter().map(|it| it.extent.to_string());
            extents.collect::<Vec<_>>().join(" ")
        };
        Schedule::new(dag).stages.iter().map(axes).collect::<Vec<_>>().join(", ")
    }

    const DOT: &str = "sum(0..4, |d| q[[h, d]] * k[[t, d]])";

    #[test]
    fn a_window_that_a_launch_knows_is_all_that_is_computed() {
        let dag = step(&format!("if t + 9 >= T {{ {DOT} }} else {{ f32::NEG_INFINITY }}"));
        insta::assert_snapshot!(extents(&dag), @"2 d1 - (max(0, d1 - 9)) 4, 2 d1 - (max(0, d1 - 9)), 2 d1 - (max(0, d1 - 9)), 2 d1 - (max(0, d1 - 9)), 2 d1 - (max(0, d1 - 9)), 2 4 d1 - (max(0, d1 - 9)), 2 4");
        let normal = Schedule::new(&dag).dag;
        let is_choice = |it: &Expr| matches!(it, Expr::Select { .. });
        let chooses = normal.computes.iter().any(|it| it.body.any(&mut |it| is_choice(it)));
        assert!(!chooses, "the mask holds for all that is left");
        for t in [1, 8, 9, 10, 20] {
            let numbers = |shape: &[u64]| Array::whole_numbers(DType::F32, shape, 5);
            let params = [numbers(&[2, 4]), numbers(&[t + 3, 4]), numbers(&[t + 3, 4])];
            let extent = |it: &Dim| t as i64 + if it.name == "T" { 0 } else { 3 };
            let dims: Vec<i64> = dag.dims.iter().map(extent).collect();
            let elements = |dag: &Dag| interp::run(dag, &dims, &params, &[]).remove(0).to_f32_vec();
            assert_eq!(elements(&normal), elements(&dag), "T = {t}");
        }
    }

    #[test]
    fn what_each_element_or_the_data_masks_stays_whole() {
        let whole = "2 d1 4, 2 d1, 2 d1, 2 d1, 2 d1, 2 4 d1, 2 4";
        for mask in [
            format!("if t + 9 >= T {{ {DOT} }} else {{ -1e30 }}"),
            format!("if t + 9 * h >= T {{ {DOT} }} else {{ f32::NEG_INFINITY }}"),
            format!("if q[[h, 0]] > 0.0 {{ {DOT} }} else {{ f32::NEG_INFINITY }}"),
            // Nothing may be left.
            format!("if t >= 9 {{ {DOT} }} else {{ f32::NEG_INFINITY }}"),
        ] {
            assert_eq!(extents(&step(&mask)), whole, "{mask}");
        }
    }

    #[test]
    fn a_part_that_one_reader_exceeds_is_computed_as_a_whole() {
        let twice = |second: &str| {
            extents(
                &dsl::program(&format!(
                    "#[autotune]
                     fn f(x: Tensor<f32, 32>) -> (Tensor<f32, 1>, Tensor<f32, 8>) {{
                         let e: Tensor<f32, 32> = compute(|i| exp(x[[i]]));
                         let s: Tensor<f32, 1> = compute(|_| sum(0..32, |i| if i >= 24 {{ e[[i]] }} else {{ 0.0 }}));
                         let t: Tensor<f32, 8> = compute(|i| {second} + 1.0);
                         (s, t)
                     }}"
                ))
                .unwrap(),
            )
        };
        assert_eq!(twice("e[[i + 24]]"), "8, 8, 1, 8");
        assert_eq!(twice("e[[i + 23]]"), "32, 8, 1, 8");
        assert_eq!(twice("e[[31 - i]]"), "32, 8, 1, 8");
    }
}
