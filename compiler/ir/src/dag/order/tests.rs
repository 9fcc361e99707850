//! Orders of reductions, by rule and as written.

use super::*;
use crate::dsl;

fn order(text: &str) -> Order {
    let mut dag = dsl::program(text).unwrap();
    dag.fix_numerics();
    dag.order(dag.computes.iter().find(|it| it.reducer.is_some()).unwrap()).unwrap()
}

#[test]
fn sums_along_rows_are_by_lanes_and_products_are_sequences() {
    let lanes = |first| Order::Lanes(Lanes { first, n: LANES });
    let rows = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
        compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]))
    }";
    assert_eq!(order(&format!("#[autotune(dims(M = 1..=9, N = 1..=70))] {rows}")), lanes(1));
    assert_eq!(order(&format!("#[autotune(dims(M = 3, N = 15))] {rows}")), Order::Sequence);
    let all = "#[autotune(dims(M = 5, N = 6))]
        fn f(x: Tensor<f32, M, N>) -> Tensor<f32, 1> {
            compute(|i| sum((0..M, 0..N), |j, k| x[[j, k]]))
        }";
    assert_eq!(order(all), lanes(0));
    let columns = "#[autotune(dims(M = 50, N = 60))]
        fn f(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
            compute(|j| sum(0..M, |i| x[[i, j]]))
        }";
    assert_eq!(order(columns), Order::Sequence);
    let product = "#[autotune(dims(M = 1..=9, N = 60, K = 70))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }";
    assert_eq!(order(product), Order::Sequence);
}

#[test]
fn sums_from_an_index_on_have_no_fixed_order() {
    let dag = |body: &str| {
        dsl::program(&format!(
            "#[autotune(dims(N = 40))] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ {body} }}"
        ))
        .unwrap()
    };
    for fixed in ["exp(x[[i]])", "sum(0..=i, |j| x[[j]])", "max(0..i, |j| x[[j]] * x[[j]])"] {
        assert_eq!(dag(&format!("compute(|i| {fixed})")).without_fixed_order(), None, "{fixed}");
    }
    for other in ["sum(i..N, |j| x[[j]])", "sum((0..=i, 0..3), |j, k| x[[j]] * k as f32)"] {
        let suffix = dag(&format!("compute(|i| {other})"));
        assert_eq!(suffix.without_fixed_order(), Some(suffix.outputs[0]), "{other}");
    }
    let mut written = dag("compute(|i| sum(0..=i, |j| x[[j]]))");
    written.fix_order(WrittenOrder::Lanes(8));
    assert_eq!(written.without_fixed_order(), Some(written.outputs[0]));
}

const ROWS: &str = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
    compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]))
}";

/// Products of all rows, of which each weight is used for several results.
const PRODUCT: &str = "fn f(x: Tensor<f32, M, N>, w: Weight<f32, M, N>) -> Tensor<f32, M, M> {
    compute(|i, j| sum(0..N, |k| x[[i, k]] * w[[j, k]]))
}";

const COLUMNS: &str = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, N> {
    compute(|j| sum(0..M, |i| x[[i, j]]))
}";

const EVERYTHING: &str = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, 1> {
    compute(|i| sum((0..M, 0..N), |j, k| x[[j, k]]))
}";

/// Returns the order of a function's reduction where that order is written, and its error.
fn written(text: &str, function: &str) -> (Order, Option<String>) {
    let mut dag =
        dsl::program(&format!("#[autotune(dims(M = 30, N = 1..=9))] {function}")).unwrap();
    dag.fix_order(text.parse().unwrap());
    let sum = dag.computes.iter().find(|it| it.reducer.is_some()).unwrap();
    (dag.order(sum).unwrap(), dag.idle_order())
}

#[test]
fn written_lanes_are_of_all_terms_along_memory() {
    let lanes = |first| Order::Lanes(Lanes { first, n: 4 });
    assert_eq!(written("lanes(4)", ROWS), (lanes(1), None));
    assert_eq!(written("lanes(4)", PRODUCT), (lanes(2), None));
    assert_eq!(written("lanes(4)", EVERYTHING), (lanes(0), None));
    let (order, why) = written("lanes(4)", COLUMNS);
    assert_eq!(order, Order::Sequence);
    assert!(why.unwrap().contains("terms that lie side by side in memory"));
    for function in [ROWS, PRODUCT, EVERYTHING, COLUMNS] {
        assert_eq!(written("sequence", function), (Order::Sequence, None));
    }
}

#[test]
fn written_blocks_are_of_the_first_range() {
    let blocks = |axis, size, lanes| Order::Blocks { axis, size, lanes };
    let lanes = |first| Some(Lanes { first, n: 4 });
    assert_eq!(written("blocks(8)", ROWS), (blocks(1, 8, None), None));
    assert_eq!(written("blocks(8)", COLUMNS), (blocks(1, 8, None), None));
    assert_eq!(written("blocks(8)", EVERYTHING), (blocks(0, 8, None), None));
    assert_eq!(written("blocks(8, lanes(4))", PRODUCT), (blocks(2, 8, lanes(2)), None));
    assert_eq!(written("blocks(8, lanes(4))", COLUMNS), (blocks(1, 8, None), None));
    // Rows of several blocks lie side by side in memory.
    assert_eq!(written("blocks(8, lanes(4))", EVERYTHING), (blocks(0, 8, lanes(0)), None));
    let (order, why) = written("blocks(9)", ROWS);
    assert_eq!(order, Order::Sequence);
    assert!(why.unwrap().contains("more than 9 iterations of its first range"));
    let (order, why) = written("blocks(9, lanes(4))", ROWS);
    assert_eq!(order, Order::Lanes(Lanes { first: 1, n: 4 }));
    assert!(why.is_some());
}

#[test]
fn ranges_of_one_iteration_have_no_blocks() {
    let function = "fn f(x: Tensor<f32, 1, M, N>) -> Tensor<f32, 1> {
        compute(|i| sum((0..1, 0..M, 0..N), |o, j, k| x[[o, j, k]]))
    }";
    let blocks = Order::Blocks { axis: 1, size: 8, lanes: Some(Lanes { first: 1, n: 4 }) };
    assert_eq!(written("blocks(8, lanes(4))", function), (blocks, None));
}

#[test]
fn partial_results_that_no_tensor_holds_are_not_made() {
    let function = "fn f(x: Tensor<f32, 1048576, 1000>, y: Tensor<f32, M, N>) -> Tensor<f32, 1048576, 1048576> {
        compute(|i, j| sum(0..1000, |k| x[[i, k]] * x[[j, k]]) + y[[0, 0]])
    }";
    assert_eq!(written("lanes(16)", function).0, Order::Lanes(Lanes { first: 2, n: 16 }));
    assert_eq!(written("lanes(32)", function).0, Order::Sequence);
    assert!(matches!(written("blocks(63)", function).0, Order::Blocks { axis: 2, .. }));
    assert_eq!(written("blocks(62)", function).0, Order::Sequence);
}

#[test]
fn terms_are_counted_from_the_beginning_of_a_block() {
    let order = Order::Blocks { axis: 1, size: 3, lanes: Some(Lanes { first: 1, n: 4 }) };
    let place = |point: [i64; 3]| order.place(&point, &[2, 7, 5]);
    assert_eq!(place([1, 0, 0]), Place { block: 0, lane: 0 });
    assert_eq!(place([1, 2, 4]), Place { block: 0, lane: 14 % 4 });
    assert_eq!(place([0, 3, 0]), Place { block: 1, lane: 0 });
    assert_eq!(place([0, 4, 1]), Place { block: 1, lane: 6 % 4 });
    assert_eq!(place([0, 6, 4]), Place { block: 2, lane: 0 });
    let mut moved = order;
    moved.move_axes(0, 1);
    let lanes = Some(Lanes { first: 2, n: 4 });
    assert_eq!(moved, Order::Blocks { axis: 2, size: 3, lanes });
    moved.move_axes(2, 1);
    assert_eq!(moved, Order::Blocks { axis: 2, size: 3, lanes });
}
