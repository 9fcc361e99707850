//! `cargo tvmtune bench --orders`: times default schedules of each kernel by other orders of its reductions, so
//! that a person can say which one it has. An order is part of what a kernel computes: no tuning changes it.

use std::sync::Arc;

use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::dag::{Dag, Numerics, WrittenOrder, print};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Target;
use tvmtune_ir::workload;
use tvmtune_space::default;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::tune::{self, Bucket, Tolerance, Workload};

use super::bench::ROUNDS;
use crate::output::eprintln;
use crate::records;
use crate::render::{Table, latency};

/// The tolerance of a program whose numerics are free in this comparison only.
const TOLERANCE: Tolerance = Tolerance { rel: 1e-2, abs: 1e-2 };

/// The orders that are compared, besides free numerics and the rule's own.
const ORDERS: [WrittenOrder; 5] = [
    WrittenOrder::Sequence,
    WrittenOrder::Lanes(32),
    WrittenOrder::Lanes(64),
    WrittenOrder::Blocks { size: 256, lanes: None },
    WrittenOrder::Blocks { size: 256, lanes: Some(64) },
];

/// The time of one bucket of a kernel by one order.
#[derive(Serialize)]
pub(super) struct OrderRow {
    name: String,
    extents: String,
    isa: String,
    /// As the attribute has it: `numerics = "free"`.
    option: String,
    /// True if the kernel has this order.
    is_own: bool,
    latency_us: f64,
    /// The time of the kernel's own order in that of this one.
    speedup: f64,
}

/// Returns the same program by each order that is another one, its own order first.
fn variants(dag: &Dag) -> Vec<(String, Dag)> {
    let own = match (dag.numerics, dag.written_order) {
        (_, Some(order)) => written(order),
        (numerics, None) => format!("numerics = \"{}\"", numerics.name()),
    };
    let mut found = vec![(own, dag.clone())];
    let mut fixed = dag.with_free_numerics();
    fixed.fix_numerics();
    let of = |order: WrittenOrder| {
        let mut dag = dag.with_free_numerics();
        dag.fix_order(order);
        dag.idle_order().is_none().then(|| (written(order), dag))
    };
    let others = [
        ("numerics = \"free\"".to_owned(), dag.with_free_numerics()),
        ("numerics = \"fixed\"".to_owned(), fixed),
    ];
    for (option, dag) in others.into_iter().chain(ORDERS.into_iter().filter_map(of)) {
        let is_same = |it: &Dag| it.numerics == dag.numerics && it.orders == dag.orders;
        if !found.iter().any(|(_, it)| is_same(it)) {
            found.push((option, dag));
        }
    }
    found
}

fn written(order: WrittenOrder) -> String {
    format!("order = \"{order}\"")
}

/// Times the default schedules of a bucket by each order; prints a warning about what was not timed.
pub(super) fn rows(
    op: &Op,
    bucket: &[Interval],
    target: Target,
    lock: &MachineLock,
) -> Vec<OrderRow> {
    let mut rows: Vec<OrderRow> = Vec::new();
    if op.dag.reference().is_some() || op.dag.without_fixed_order().is_some() {
        eprintln!("note: {} has no other order", op.name());
        return rows;
    }
    let variants = variants(&op.dag);
    for (n, (option, dag)) in variants.iter().enumerate() {
        match time(op, dag, bucket, target, lock) {
            Ok(ns) => rows.push(OrderRow {
                name: op.name().to_owned(),
                extents: records::extents(op, bucket),
                isa: target.platform().to_string(),
                option: option.clone(),
                is_own: n == 0,
                latency_us: ns / 1e3,
                speedup: rows.first().map_or(1.0, |own| own.latency_us * 1e3 / ns),
            }),
            Err(why) => {
                eprintln!("warning: {} was not timed with {option}: {why}", op.name());
                if n == 0 {
                    break;
                }
            }
        }
    }
    rows
}

/// Times the default schedule of a program, in ns.
fn time(
    op: &Op,
    dag: &Dag,
    bucket: &[Interval],
    target: Target,
    lock: &MachineLock,
) -> Result<f64, String> {
    let workload = OpBuckets::new(op, Vec::new()).workload();
    let is_exact = workload.tolerance.rel == 0.0 && dag.numerics == Numerics::Free;
    let workload = Workload {
        id: workload::id(dag),
        text: print::canonical(dag),
        dag: dag.clone(),
        definition: Arc::default(),
        tolerance: if is_exact { TOLERANCE } else { workload.tolerance },
        ..workload
    };
    let trace = default::schedule(&dag.specialize(bucket), &target).trace;
    let bench = tune::Bench {
        bucket: Bucket { workload: &workload, ranges: bucket },
        dims: None,
        target,
        rounds: ROUNDS,
    };
    let worker = WorkerCommand::this_executable().map_err(|it| it.to_string())?;
    let outcomes = tune::bench(&bench, &[trace], worker, lock).map_err(|it| it.to_string())??;
    match outcomes.first() {
        Some(Outcome::Timed(timing)) => Ok(timing.median_ns()),
        Some(other) => Err(other.to_string()),
        None => Err("the worker gave no timing".to_owned()),
    }
}

pub(super) fn table(rows: &[OrderRow]) -> Table {
    let mut table = Table::new(["kernel", "extents", "isa", "order", "latency", "speedup"]);
    for it in rows {
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.clone(),
            if it.is_own { format!("{} (its own)", it.option) } else { it.option.clone() },
            latency(it.latency_us * 1e3),
            format!("{:.2}x", it.speedup),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    fn options(attribute: &str) -> Vec<String> {
        let dag = dsl::program(&format!(
            "#[autotune(dims(M = 8, K = 300){attribute})]
            fn f(x: Tensor<f32, M, K>) -> Tensor<f32, M> {{ compute(|i| sum(0..K, |k| x[[i, k]])) }}"
        ));
        variants(&dag.unwrap()).into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn each_order_is_compared_once_the_own_one_first() {
        let blocks = ["order = \"blocks(256)\"", "order = \"blocks(256, lanes(64))\""];
        let own_first = |own: &str, others: &[&str]| {
            let all = std::iter::once(own).chain(others.iter().copied()).chain(blocks);
            all.map(str::to_owned).collect::<Vec<_>>()
        };
        let [free, fixed] = ["numerics = \"free\"", "numerics = \"fixed\""];
        let [sequence, lanes] = ["order = \"sequence\"", "order = \"lanes(32)\""];
        // The rule gives such sums 64 lanes.
        assert_eq!(options(""), own_first(free, &[fixed, sequence, lanes]));
        assert_eq!(options(", numerics = \"fixed\""), own_first(fixed, &[free, sequence, lanes]));
        assert_eq!(options(", order = \"lanes(32)\""), own_first(lanes, &[free, fixed, sequence]));
    }
}
