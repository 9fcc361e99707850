//! The text of printed Rust: precedence, conversions, and what slices are cut to.

use super::print;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Dim, Expr, Literal, Reducer, Scalar, ScalarId, Subscript, TensorId,
    UnaryOp,
};
use tvmtune_ir::poly::{DimId, Facts, Interval, Poly, VarId};
use tvmtune_schedule::nest::{Buffer, Guard, Nest, Scope, Stmt};
use tvmtune_schedule::{LoopKind, Threads};

const X: TensorId = TensorId(0);
const IDS: TensorId = TensorId(1);
const H: TensorId = TensorId(2);
const OUT: TensorId = TensorId(3);

fn v(n: u32) -> Poly {
    Poly::var(VarId(n))
}

fn m() -> Poly {
    Poly::dim(DimId(0))
}

/// A nest of four buffers with one dynamic dimension, around `body`.
fn nest(body: Vec<Stmt>) -> Nest {
    let buffer = |name: &str, dtype, shape: &[Poly], scope| Buffer {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
        scope,
        layout: None,
        is_partial: false,
    };
    Nest {
        name: "test".to_owned(),
        dims: vec![Dim { name: "M".to_owned(), range: Interval { lo: 1, hi: 9 }, lower_end: None }],
        scalars: vec![Scalar { name: "eps".to_owned(), dtype: DType::F32 }],
        buffers: vec![
            buffer("x", DType::F32, &[m(), 4.into()], Scope::Argument),
            buffer("move", DType::I32, &[m()], Scope::Argument),
            buffer("h", DType::F16, &[m(), 4.into()], Scope::Workspace),
            buffer("out", DType::F32, &[m()], Scope::Argument),
        ],
        params: vec![X, IDS],
        outputs: vec![OUT],
        n_vars: 8,
        threads: Threads::One,
        numerics: tvmtune_ir::dag::Numerics::Free,
        hand_written: None,
        body,
    }
}

fn for_loop(var: u32, name: &str, extent: Poly, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var: VarId(var), name: name.to_owned(), extent, kind: LoopKind::Serial, body }
}

/// The line that stores `value` to a result.
fn line_of(value: Expr) -> String {
    let body = vec![Stmt::Store { tensor: OUT, index: vec![Poly::default()], value }];
    let text = print(&nest(body));
    text.lines().find(|it| it.contains("out[0]")).unwrap().trim().to_owned()
}

#[test]
fn a_nest_is_a_function_of_slices() {
    let eps = || Expr::Scalar(ScalarId(0));
    let update = Stmt::Update {
        tensor: OUT,
        index: vec![v(0)],
        reducer: Reducer::Sum,
        value: Expr::read(X, [v(0), v(2)]).binary(BinaryOp::Mul, eps()),
    };
    let guard = Guard { value: v(1) * 3 + v(2), bound: 4.into() };
    let guarded = Stmt::If { guards: vec![guard], body: vec![update] };
    let index = Expr::Read {
        tensor: X,
        index: vec![Subscript::Value(Box::new(Expr::read(IDS, [v(3)]))), Subscript::Affine(v(4))],
    };
    let store = Stmt::Store {
        tensor: H,
        index: vec![v(3), v(4)],
        value: Expr::Cast(DType::F16, Box::new(index)),
    };
    let text = print(&nest(vec![
        for_loop(
            0,
            "i",
            m(),
            vec![for_loop(1, "k", 2.into(), vec![for_loop(2, "k", 3.into(), vec![guarded])])],
        ),
        for_loop(3, "i", m(), vec![for_loop(4, "j", 4.into(), vec![store])]),
    ]));
    insta::assert_snapshot!(text, @"
    pub fn portable(m: i64, eps: f32, x: &[f32], move_2: &[i32], out: &mut [f32]) {
        let mut h = vec![rt::half::f16::ZERO; (4 * m) as usize];
        for i in 0..m {
            for k in 0..2 {
                let n_k_2 = i64::min(3, -3 * k + 4);
                if n_k_2 > 0 {
                    let x_row = &x[(4 * i) as usize..][..n_k_2 as usize];
                    for k_2 in 0..n_k_2 {
                        out[i as usize] = rt::math::fma(x_row[k_2 as usize], eps, out[i as usize]);
                    }
                }
            }
        }
        for i in 0..m {
            let h_row = &mut h[(4 * i) as usize..][..4];
            for j in 0..4 {
                h_row[j as usize] = rt::half::f16::from_f32(x[(j + (move_2[i as usize] as i64) * 4) as usize]);
            }
        }
    }
    ");
}

#[test]
fn operands_keep_their_order() {
    let x = || Expr::read(X, [0.into(), 0.into()]);
    let difference = || x().binary(BinaryOp::Sub, Expr::f32(1.0));
    insta::assert_snapshot!(line_of(x().binary(BinaryOp::Sub, difference())), @"out[0] = x[0] - (x[0] - 1.0_f32);");
    let other = x().binary(BinaryOp::Sub, Expr::f32(2.0));
    insta::assert_snapshot!(line_of(difference().binary(BinaryOp::Mul, other)), @"out[0] = (x[0] - 1.0_f32) * (x[0] - 2.0_f32);");
    insta::assert_snapshot!(line_of(difference().unary(UnaryOp::Neg).unary(UnaryOp::Exp)), @"out[0] = rt::math::exp(-(x[0] - 1.0_f32));");
    insta::assert_snapshot!(line_of(x().unary(UnaryOp::ExpM1).unary(UnaryOp::Log2)), @"out[0] = rt::math::log2(rt::math::exp_m1(x[0]));");
    insta::assert_snapshot!(line_of(Expr::f32(-2.5).unary(UnaryOp::Abs)), @"out[0] = (-2.5_f32).abs();");
    insta::assert_snapshot!(line_of(Expr::f32(f64::NEG_INFINITY)), @"out[0] = f32::NEG_INFINITY;");
}

#[test]
fn a_value_that_is_used_twice_is_computed_once() {
    let x = || Expr::read(X, [0.into(), 0.into()]);
    let gated = |it: Expr| it.clone().binary(BinaryOp::Mul, it.unary(UnaryOp::Tanh));
    let store = Stmt::Store { tensor: OUT, index: vec![0.into()], value: gated(gated(gated(x()))) };
    let text = print(&nest(vec![store]));
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|it| it.contains(" = ")).collect();
    let wanted = [
        "let shared = x[0] * rt::math::tanh(x[0]);",
        "let shared_2 = shared * rt::math::tanh(shared);",
        "out[0] = shared_2 * rt::math::tanh(shared_2);",
    ];
    assert_eq!(lines[lines.len() - 3..], wanted);
}

#[test]
fn integers_wrap_and_conversions_exist_for_every_pair() {
    let int = |value| Expr::Const(Literal::Int(value), DType::I8);
    let sum = int(100).binary(BinaryOp::Add, int(-100));
    insta::assert_snapshot!(line_of(Expr::Cast(DType::F32, Box::new(sum))), @"out[0] = 100_i8.wrapping_add(-100_i8) as f32;");
    let bits = int(6).binary(BinaryOp::BitAnd, int(-4).unary(UnaryOp::Not));
    insta::assert_snapshot!(line_of(bits.clone().binary(BinaryOp::Shl, int(9))), @"out[0] = (6_i8 & (!(-4_i8))).wrapping_shl(9_i8 as u32);");
    insta::assert_snapshot!(line_of(bits.binary(BinaryOp::BitXor, int(1)).binary(BinaryOp::Shr, int(-1))), @"out[0] = ((6_i8 & (!(-4_i8))) ^ 1_i8).wrapping_shr((-1_i8) as u32);");
    let quotient = int(1).binary(BinaryOp::Div, int(0));
    insta::assert_snapshot!(line_of(Expr::Cast(DType::F32, Box::new(quotient))), @"out[0] = rt::math::Integer::quotient(1_i8, 0_i8) as f32;");
    let positive = Expr::Scalar(ScalarId(0)).compare(CompareOp::Gt, Expr::f32(0.0));
    insta::assert_snapshot!(line_of(Expr::Cast(DType::F32, Box::new(positive.clone()))), @"out[0] = (eps > 0.0_f32) as u8 as f32;");
    let half = Expr::Cast(DType::Bf16, Box::new(Expr::Index(m())));
    insta::assert_snapshot!(line_of(Expr::Cast(DType::F32, Box::new(half))), @"out[0] = rt::math::bf16(m as f64).to_f32();");
    let select = Expr::Select {
        condition: Box::new(positive),
        then: Box::new(Expr::f32(1.0)),
        otherwise: Box::new(Expr::f32(2.0)),
    };
    insta::assert_snapshot!(line_of(select.binary(BinaryOp::Pow, Expr::f32(0.5))), @"out[0] = rt::math::pow((if eps > 0.0_f32 { 1.0_f32 } else { 2.0_f32 }), 0.5_f32);");
}

#[test]
fn indices_divide_downwards() {
    let facts = Facts::default();
    let index = (m() - 3.into()).div(&2.into(), &facts).lesser(&(m() * 2 - 1.into()), &facts);
    insta::assert_snapshot!(line_of(Expr::Cast(DType::F32, Box::new(Expr::Index(index)))), @"out[0] = i64::min(i64::div_euclid(m + 1, 2) - 2, 2 * m - 1) as f32;");
}
