//! Value functions of small spaces and of a product of matrices.

use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_space::sketch::{Decision, DecisionKind, Sketch};

use super::*;
use crate::cost::gbdt::Objective;
use crate::random::Random;
use crate::space::{Point, Space};

/// A sketch of three decisions, and one of a single decision.
pub(super) fn space() -> Space {
    let decision = |name: &str, n_options| Decision {
        name: name.to_owned(),
        kind: DecisionKind::Outer,
        options: (1..=n_options).collect(),
        group: 0,
    };
    let three = vec![decision("a", 2), decision("b", 3), decision("c", 4)];
    let sketches = vec![
        Sketch::new("three", three, vec![1, 0, 2], Vec::new()),
        Sketch::new("one", vec![decision("a", 2)], vec![1], Vec::new()),
    ];
    Space::from_sketches(sketches)
}

/// The latency of a point on hardware that knows one rule: every decision has a best option, and each option
/// away from it costs a fifth.
fn latency_ns(space: &Space, point: &Point) -> f64 {
    let best = |n: usize, n_options: usize| (7 * n + usize::from(point.sketch)) % n_options;
    let away = space.decisions(point).iter().zip(&point.choices).enumerate();
    let away =
        away.map(|(n, (it, choice))| best(n, it.options.len()).abs_diff(usize::from(*choice)));
    1000.0 * 1.2_f64.powi(away.sum::<usize>() as i32) * (1.0 + 0.3 * f64::from(point.sketch.min(3)))
}

#[test]
fn what_was_seen_under_a_prefix_is_its_label() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let features = Features { dag: &dag, target: &target, space: &space };
    let [default, ..] = &space.defaults()[..] else { panic!("there is a default") };
    let mut other = default.clone();
    other.choices[1] = u16::from(default.choices[1] == 0);
    let failed = Point { choices: default.choices.iter().map(|_| 0).collect(), ..*default };
    let trials = [(default.clone(), Some(400.0)), (other.clone(), Some(200.0)), (failed, None)];
    let samples = samples(&features, &trials, Label::Best, usize::MAX, 1);
    let share = |prefix: &Prefix| {
        let found = samples.iter().find(|it| it.prefix == *prefix)?;
        Some((found.share, found.n_trials))
    };
    let prefixes: Vec<Prefix> = Prefix::of(default).collect();
    assert_eq!(share(&prefixes[0]), Some((1.0, 3)), "all are under the sketch");
    assert_eq!(share(&prefixes[2]), Some((0.5, 1)), "the other differs by then");
    assert_eq!(share(&Prefix::of(&other).last().unwrap()), Some((1.0, 1)));
    assert!(
        super::samples(&features, &trials[2..], Label::Best, usize::MAX, 1).is_empty(),
        "nothing works"
    );
    let few = super::samples(&features, &trials, Label::Best, 3, 1);
    let lengths: Vec<usize> = few.iter().map(|it| it.prefix.choices.len()).collect();
    assert_eq!(lengths, [0, 1, 2], "all lengths have a part");
    let each = super::samples(&features, &trials, Label::Each, usize::MAX, 1);
    let roots = each.iter().filter(|it| it.prefix.choices.is_empty()).map(|it| it.share);
    let mut roots: Vec<f64> = roots.collect();
    roots.sort_by(f64::total_cmp);
    assert_eq!(roots, [0.0, 0.5, 1.0]);
}

const MATMUL: &str = "
    #[autotune(dims(N = 256))]
    fn matmul(a: Tensor<f32, N, N>, b: Tensor<f32, N, N>) -> Tensor<f32, N, N> {
        compute(|i, j| sum(0..N, |k| a[[i, k]] * b[[k, j]]))
    }";

fn target() -> Target {
    Target::Cpu(CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) })
}

/// From 400 random trials the function learns to take decisions that are better than most of them, and it is
/// the same for any number of threads.
#[test]
fn a_search_by_learned_values_finds_what_few_trials_did() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let features = Features { dag: &dag, target: &target, space: &space };
    let mut random = Random::new(1);
    let trials: Vec<Measured> = (0..400)
        .map(|_| space.random(&mut random))
        .map(|it| (it.clone(), Some(latency_ns(&space, &it))))
        .collect();
    let training = samples(&features, &trials, Label::Best, 3000, 1);
    let value = ValueFunction::train(&training, Objective::Mean, 2);
    let found = beam_search(&space, 4, |it| value.values(&features, it, 2));
    let mut all: Vec<f64> = trials.iter().filter_map(|it| it.1).collect();
    all.sort_by(f64::total_cmp);
    let ns = latency_ns(&space, &found[0]);
    assert!(ns <= all[20], "{ns}, of trials the best {:?}", &all[..21]);
    let again = ValueFunction::train(&training, Objective::Mean, 1);
    let prefixes = Prefix::roots(&space);
    assert_eq!(value.values(&features, &prefixes, 2), again.values(&features, &prefixes, 1));
}
