//! Bugs seeded into a nest with an online reduction: each must be detected.

use crate::nest::tests::scheduled;
use crate::nest::{Statement, Stmt, lower};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Number};
use tvmtune_ir::interp::Array;

const PROGRAM: &str = "
    #[autotune(dims(R = 4, S = 1..=30))]
    fn logsumexp(x: Tensor<f32, R, S>) -> Tensor<f32, R> {
        let m = compute(|r| max(0..S, |j| x[[r, j]]));
        let l = compute(|r| sum(0..S, |j| exp(x[[r, j]] - m[[r]])));
        compute(|r| m[[r]] + ln(l[[r]]))
    }";

const TRACE: &str = "
    compute_at s1 s2 a0
    split s1 a1 [8]
    reorder s1 [a2, a0, a3]
    online_reduction s0 s1 a2";

/// The statements for one row: the two starts, the loop over blocks, the last factor, the last
/// correction, the result; and for one block: the maximum before it, the maximum, the factor, the
/// correction, the sum.
fn seeded(change: impl FnOnce(&mut Vec<Stmt>)) -> String {
    let schedule = scheduled(PROGRAM, TRACE);
    let mut nest = lower(&schedule);
    let Some(Stmt::For { body, .. }) = nest.body.first_mut() else { return "no loop".into() };
    change(body);
    let mut x = Array::random(DType::F32, &[4, 30], 1);
    for at in 0..x.len() {
        let grown = x.get(at).to_f64() * 9.0;
        // A row with a masked block, then one that is masked wholly.
        let masked = at < 12 || (30..60).contains(&at);
        x.set(at, Number::Float(if masked { f64::NEG_INFINITY } else { grown }));
    }
    let params = [x];
    match crate::interp::run(&nest, &[30], &params, &[]) {
        Err(fault) => fault.to_string(),
        Ok(it) => {
            let expected = tvmtune_ir::interp::run(&schedule.dag, &[30], &params, &[]);
            let error = it[0].max_error(&expected[0], 1e-5, 1e-5);
            error.map_or("right".into(), |it| {
                format!("{} wrong, {} for {}", it.count, it.got, it.want)
            })
        }
    }
}

/// The statements for one block.
fn block(row: &mut [Stmt]) -> &mut Vec<Stmt> {
    let body = row.iter_mut().find_map(|it| match it {
        Stmt::For { body, .. } => Some(body),
        _ => None,
    });
    body.expect("there is a loop over blocks")
}

fn without_least(value: &Expr) -> Expr {
    match value.map_children(&mut |it| without_least(it)) {
        Expr::Binary(BinaryOp::Max, maximum, _) => *maximum,
        other => other,
    }
}

#[test]
fn a_sum_that_is_corrected_is_right() {
    assert_eq!(seeded(|_| {}), "right");
}

#[test]
fn a_sum_that_is_not_corrected_is_wrong() {
    let report = seeded(|row| drop(block(row).remove(3)));
    insta::assert_snapshot!(report, @"3 wrong, 10.28904914855957 for 9.12421989440918");
}

#[test]
fn a_sum_that_is_corrected_too_late_is_wrong() {
    let report = seeded(|row| block(row).swap(3, 4));
    insta::assert_snapshot!(report, @"3 wrong, 6.926267623901367 for 9.12421989440918");
}

#[test]
fn a_maximum_that_is_not_kept_is_read_before_it_was_written() {
    let report = seeded(|row| drop(block(row).remove(0)));
    insta::assert_snapshot!(report, @"`m_before` at [0] is read before it was written, in iteration r=0 j_0=0");
}

#[test]
fn a_maximum_that_is_kept_too_late_corrects_nothing() {
    let report = seeded(|row| block(row).swap(0, 1));
    insta::assert_snapshot!(report, @"3 wrong, 10.28904914855957 for 9.12421989440918");
}

#[test]
fn differences_of_infinities_are_seen_where_a_block_is_masked() {
    let report = seeded(|row| {
        for stmt in block(row) {
            stmt.for_each_mut(&mut |it| {
                if let Stmt::Store { value, .. } | Stmt::Update { value, .. } = it {
                    *value = without_least(value);
                }
            });
        }
    });
    insta::assert_snapshot!(report, @"1 wrong, NaN for 9.12421989440918");
}

#[test]
fn a_row_that_is_masked_wholly_is_seen_where_the_last_correction_is_missing() {
    let report = seeded(|row| drop(row.remove(4)));
    insta::assert_snapshot!(report, @"1 wrong, -inf for NaN");
}
