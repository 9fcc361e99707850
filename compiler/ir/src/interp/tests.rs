//! Programs by definition, against values worked out by hand.

use super::*;
use crate::dag::{
    BinaryOp, CompareOp, ComputeAxis, ComputeId, Dim, Expr, Numerics, Reducer, Subscript, Tensor,
    TensorId, TensorKind,
};
use crate::poly::{DimId, Interval, Poly, VarId};

fn v(n: u32) -> Poly {
    Poly::var(VarId(n))
}

/// A dag with one compute over the given parameters.
fn one_compute(
    params: &[(DType, &[Poly])],
    dtype: DType,
    extents: &[Poly],
    n_spatial: usize,
    reducer: Option<Reducer>,
    body: Expr,
) -> Dag {
    let tensor = |dtype: DType, shape: &[Poly], kind| Tensor {
        name: "t".to_owned(),
        dtype,
        shape: shape.to_vec(),
        kind,
    };
    let mut tensors: Vec<Tensor> =
        params.iter().map(|(dtype, shape)| tensor(*dtype, shape, TensorKind::Input)).collect();
    let output = TensorId(tensors.len() as u32);
    tensors.push(tensor(dtype, &extents[..n_spatial], TensorKind::Computed(ComputeId(0))));
    let axes = extents
        .iter()
        .map(|extent| ComputeAxis { name: "a".to_owned(), extent: extent.clone() })
        .collect();
    Dag {
        name: "test".to_owned(),
        dims: vec![Dim {
            name: "M".to_owned(),
            range: Interval { lo: 1, hi: 1024 },
            lower_end: None,
        }],
        scalars: Vec::new(),
        tensors,
        computes: vec![Compute { tensor: output, axes, n_spatial, reducer, body }],
        outputs: vec![output],
        numerics: Numerics::Free,
        written_order: None,
        orders: Vec::new(),
        kernel_template: None,
    }
}

fn matmul(m: Poly, n: i64, k: i64) -> Dag {
    let product = Expr::read(TensorId(0), [v(0), v(2)])
        .binary(BinaryOp::Mul, Expr::read(TensorId(1), [v(1), v(2)]));
    let (n, k) = (Poly::constant(n), Poly::constant(k));
    let (x, w) = ([m.clone(), k.clone()], [n.clone(), k.clone()]);
    let params: [(DType, &[Poly]); 2] = [(DType::F32, &x), (DType::F32, &w)];
    one_compute(&params, DType::F32, &[m, n, k], 2, Some(Reducer::Sum), product)
}

#[test]
fn a_matmul_agrees_with_three_loops_whichever_axis_is_longest() {
    for (m, n, k) in [(3, 4, 5), (7, 2, 3), (2, 9, 4), (1, 1, 1200), (1024, 1, 2)] {
        let (m_u, n_u, k_u) = (m as usize, n as usize, k as usize);
        let x = Array::whole_numbers(DType::F32, &[m as u64, k as u64], 1);
        let w = Array::whole_numbers(DType::F32, &[n as u64, k as u64], 2);
        let got = run(&matmul(Poly::dim(DimId(0)), n, k), &[m], &[x.clone(), w.clone()], &[]);
        let (x, w) = (x.to_f32_vec(), w.to_f32_vec());
        let mut want = Vec::new();
        for (i, j) in (0..m_u).flat_map(|i| (0..n_u).map(move |j| (i, j))) {
            want.push((0..k_u).map(|p| x[i * k_u + p] * w[j * k_u + p]).sum::<f32>());
        }
        assert_eq!(got[0].to_f32_vec(), want, "{m} {n} {k}");
    }
}

#[test]
fn a_branch_not_taken_is_not_evaluated() {
    // x[i - 1] where i >= 1, else 0: the read at i = 0 would be out of bounds.
    let inside = Expr::Index(v(0))
        .compare(CompareOp::Ge, Expr::Const(crate::dag::Literal::Int(1), DType::I64));
    let body = Expr::Select {
        condition: Box::new(inside),
        then: Box::new(Expr::read(TensorId(0), [v(0) - 1.into()])),
        otherwise: Box::new(Expr::f32(0.0)),
    };
    let shape = [Poly::constant(4)];
    let dag = one_compute(&[(DType::F32, &shape)], DType::F32, &shape, 1, None, body);
    let x = Array::from_f32(&[4], vec![1.0, 2.0, 3.0, 4.0]);
    assert_eq!(run(&dag, &[1], &[x], &[])[0].to_f32_vec(), [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn gathers_and_divisions_address_the_right_element() {
    // table[ids[i / 2], i % 3]
    let ids = Expr::read(TensorId(1), [v(0).div(&2.into(), &crate::poly::Facts::default())]);
    let body = Expr::Read {
        tensor: TensorId(0),
        index: vec![
            Subscript::Value(Box::new(ids)),
            Subscript::Affine(v(0).modulo(&3.into(), &crate::poly::Facts::default())),
        ],
    };
    let (table, ids) = ([Poly::constant(5), Poly::constant(3)], [Poly::constant(2)]);
    let params: [(DType, &[Poly]); 2] = [(DType::F32, &table), (DType::I32, &ids)];
    let dag = one_compute(&params, DType::F32, &[Poly::constant(4)], 1, None, body);
    let table = Array::from_f32(&[5, 3], (0..15u8).map(f32::from).collect());
    let ids = Array::from_fn(DType::I32, &[2], |n| Number::Int([4, 1][n]));
    assert_eq!(run(&dag, &[1], &[table, ids], &[])[0].to_f32_vec(), [12.0, 13.0, 5.0, 3.0]);
}

#[test]
fn sums_round_once_at_the_end() {
    let shape = [Poly::constant(3)];
    let body = Expr::read(TensorId(0), [v(0)]);
    let params: [(DType, &[Poly]); 1] = [(DType::F32, &shape)];
    let dag = one_compute(&params, DType::F32, &shape, 0, Some(Reducer::Sum), body);
    let x = Array::from_f32(&[3], vec![1e8, 1.0, -1e8]);
    let sum = run(&dag, &[1], &[x], &[]);
    assert_eq!((sum[0].shape.len(), sum[0].get(0)), (0, Number::Float(1.0)));
}

#[test]
fn an_integer_sum_wraps_in_its_type() {
    let shape = [Poly::constant(3)];
    let body = Expr::read(TensorId(0), [v(0)]);
    let params: [(DType, &[Poly]); 1] = [(DType::I8, &shape)];
    let dag = one_compute(&params, DType::I8, &shape, 0, Some(Reducer::Sum), body);
    let x = Array::from_fn(DType::I8, &[3], |_| Number::Int(100));
    assert_eq!(run(&dag, &[1], &[x], &[])[0].get(0), Number::Int(44));
}

/// Runs a program at some extents on its parameters.
type Interpreter<'a> = &'a dyn Fn(&Dag, &[i64], &[Array]) -> Vec<Array>;

#[test]
fn terms_are_added_in_the_order_of_the_ranges_and_products_are_not_rounded_before() {
    // Too small to change 1, but for all of them together; and a product with more digits than a float.
    let small = f32::EPSILON / 4.0;
    let x: Vec<f32> = std::iter::once(1.0).chain([small; 7]).collect();
    let sum = |x: &[f32], w: &[f32], semantics: Interpreter<'_>| {
        let k = x.len();
        let params = [
            Array::from_f32(&[1, k as u64], x.to_vec()),
            Array::from_f32(&[1, k as u64], w.to_vec()),
        ];
        let results = semantics(&matmul(Poly::constant(1), 1, k as i64), &[1], &params);
        let Number::Float(sum) = results[0].get(0) else { panic!("a float") };
        sum as f32
    };
    let in_order = |dag: &Dag, dims: &[i64], params: &[Array]| run_in_order(dag, dims, params, &[]);
    let wide = |dag: &Dag, dims: &[i64], params: &[Array]| run(dag, dims, params, &[]);
    assert_eq!(sum(&x, &[1.0; 8], &in_order), 1.0);
    assert!(sum(&x, &[1.0; 8], &wide) > 1.0);
    let reversed: Vec<f32> = x.iter().rev().copied().collect();
    assert!(sum(&reversed, &[1.0; 8], &in_order) > 1.0);
    let a = 1.0 + 2_f32.powi(-12);
    assert_eq!(sum(&[1.0, a], &[-1.0, a], &in_order), a.mul_add(a, -1.0));
    assert_ne!(a.mul_add(a, -1.0), a * a - 1.0);
}
