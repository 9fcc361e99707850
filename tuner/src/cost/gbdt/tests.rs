//! Functions that an ensemble must be able to learn, and inputs that must not break it.

use super::*;
use crate::random::Random;

/// Programs of `n_rows` rows of `width` numbers in steps of a sixteenth, labelled by a function.
struct Data {
    width: usize,
    rows: Vec<Vec<f32>>,
    labels: Vec<f64>,
}

impl Data {
    fn new(n: usize, n_rows: usize, width: usize, label: impl Fn(&[f32]) -> f64) -> Self {
        let mut random = Random::new(3);
        let mut row = || (0..n_rows * width).map(|_| random.below(17) as f32 / 16.0).collect();
        let rows: Vec<Vec<f32>> = (0..n).map(|_| row()).collect();
        let labels = rows.iter().map(|it| label(it)).collect();
        Self { width, rows, labels }
    }

    fn programs(&self) -> Vec<Program<'_>> {
        let all = self.rows.iter().zip(&self.labels);
        all.map(|(rows, label)| Program { rows, label: *label, weight: 1.0 }).collect()
    }

    fn train(&self, n_threads: usize) -> Gbdt {
        Gbdt::train(&self.programs(), self.width, Objective::Mean, n_threads)
    }

    /// Returns the share of the labels' variance that is unexplained, on the training programs.
    fn unexplained(&self, model: &Gbdt) -> f64 {
        let mean = self.labels.iter().sum::<f64>() / self.labels.len() as f64;
        let pairs = self.rows.iter().zip(&self.labels);
        let errors: f64 = pairs.map(|(rows, label)| (model.predict(rows) - label).powi(2)).sum();
        errors / self.labels.iter().map(|it| (it - mean).powi(2)).sum::<f64>()
    }
}

#[test]
fn one_of_two_but_not_both_is_learned() {
    let data = Data::new(500, 1, 4, |it| f64::from((it[0] > 0.5) != (it[2] > 0.5)));
    let left = data.unexplained(&data.train(1));
    assert!(left < 0.02, "{left}");
}

#[test]
fn a_monotone_function_is_learned_as_monotone() {
    let data = Data::new(500, 1, 3, |it| f64::from(it[1]).powi(2));
    let model = data.train(1);
    let curve: Vec<f64> =
        (0..=16_u8).map(|it| model.predict(&[0.5, f32::from(it) / 16.0, 0.5])).collect();
    assert!(curve.is_sorted_by(|a, b| a <= &(b + 0.02)), "{curve:?}");
    assert!((curve[0] - 0.0).abs() < 0.1 && (curve[16] - 1.0).abs() < 0.1, "{curve:?}");
}

#[test]
fn labels_are_of_all_rows_together() {
    // Twelve rows that are corrected at once must not overshoot.
    for n_rows in [2, 5, 12] {
        let sum = |rows: &[f32]| rows.chunks(3).map(|it| f64::from(it[0] * it[1])).sum::<f64>();
        let data = Data::new(1000, n_rows, 3, |rows| sum(rows) / n_rows as f64);
        let left = data.unexplained(&data.train(1));
        assert!(left < 0.1, "{n_rows} rows: {left}");
    }
}

#[test]
fn programs_that_count_more_are_closer() {
    let rows = [[0.5_f32], [0.5]];
    let program = |n: usize, weight: f64| Program { rows: &rows[n], label: n as f64, weight };
    let programs: Vec<Program<'_>> =
        (0..200).map(|n| program(n % 2, if n % 2 == 0 { 1.0 } else { 3.0 })).collect();
    let mean = Gbdt::train(&programs, 1, Objective::Mean, 1).predict(&[0.5]);
    assert!((0.6..0.85).contains(&mean), "{mean} is not about 3/4");
}

#[test]
fn constant_labels_and_single_programs_are_fine() {
    let constant = Program { rows: &[1.0, 2.0], label: 0.5, weight: 1.0 };
    for n in [0, 1, 2, 50] {
        let model = Gbdt::train(&vec![constant; n], 2, Objective::Mean, 1);
        let predicted = model.predict(&[1.0, 2.0]);
        assert!(predicted.is_finite());
        assert!(n < 50 || (predicted - 0.5).abs() < 0.1, "{n}: {predicted}");
    }
    assert_eq!(Gbdt::default().predict(&[1.0]), 0.0);
    let none = Program { rows: &[], label: 1.0, weight: 1.0 };
    assert_eq!(Gbdt::train(&[none; 3], 2, Objective::Mean, 1).n_trees(), 0);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    // Wide enough that threads share the work.
    let data = Data::new(700, 2, 200, |it| f64::from(it[0] + it[7] * it[9]) / 3.0);
    let alone = data.train(1);
    assert!(alone.n_trees() > 5);
    assert_eq!(alone, data.train(2));
    assert_eq!(alone, data.train(5));
}

#[test]
fn learning_stops_where_it_helps_no_more() {
    let noise = std::cell::RefCell::new(Random::new(9));
    let data = Data::new(300, 1, 5, |_| noise.borrow_mut().unit());
    assert!(data.train(1).n_trees() < 100);
}

/// Labels spread evenly above the number of their row: the quantiles are known.
#[test]
fn a_quantile_of_labels_is_learned() {
    let mut random = Random::new(5);
    let mut data = Data::new(2000, 1, 2, |it| f64::from(it[0]));
    data.labels.iter_mut().for_each(|it| *it += random.unit());
    for share in [0.2, 0.5, 0.9] {
        let model = Gbdt::train(&data.programs(), 2, Objective::Quantile(share), 1);
        for row in [[0.25, 0.5], [0.75, 0.5]] {
            let error = model.predict(&row) - (f64::from(row[0]) + share);
            assert!(error.abs() < 0.15, "{share} {row:?}: {error}");
        }
        let below = data.rows.iter().zip(&data.labels).filter(|(it, y)| **y < model.predict(it));
        let below = below.count() as f64 / data.labels.len() as f64;
        assert!((below - share).abs() < 0.06, "{share}: {below}");
    }
}
