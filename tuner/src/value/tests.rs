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
    let features = Features::new(&dag, &target, &space);
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

/// Returns random trials of the product on hardware that knows one rule.
fn trials(space: &Space) -> Vec<Measured> {
    let mut random = Random::new(1);
    (0..400)
        .map(|_| space.random(&mut random))
        .map(|it| (it.clone(), Some(latency_ns(space, &it))))
        .collect()
}

/// Returns a function that was trained on them.
pub(super) fn trained(objective: Objective) -> ValueFunction {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let features = Features::new(&dag, &target, &space);
    let training = samples(&features, &trials(&space), Label::Best, 1000, 1);
    ValueFunction::train(&training, objective, Analysis::Factor, 2)
}

/// From 400 random trials the function learns to take decisions that are better than most of them, and it is
/// the same for any number of threads.
#[test]
fn a_search_by_learned_values_finds_what_few_trials_did() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let features = Features::new(&dag, &target, &space);
    let trials = trials(&space);
    let training = samples(&features, &trials, Label::Best, 3000, 1);
    let value = ValueFunction::train(&training, Objective::Mean, Analysis::Feature, 2);
    let found = beam_search(&space, 4, |it| value.values(&features, it, 2));
    let mut all: Vec<f64> = trials.iter().filter_map(|it| it.1).collect();
    all.sort_by(f64::total_cmp);
    let ns = latency_ns(&space, &found[0]);
    assert!(ns <= all[20], "{ns}, of trials the best {:?}", &all[..21]);
    let again = ValueFunction::train(&training, Objective::Mean, Analysis::Feature, 1);
    let prefixes = Prefix::roots(&space);
    assert_eq!(value.values(&features, &prefixes, 2), again.values(&features, &prefixes, 1));
}

#[test]
fn the_default_schedule_is_kept_where_the_predicted_gain_is_small() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let features = Features::new(&dag, &target, &space);
    let value = trained(Objective::Mean);
    let chosen = |margin| Policy { width: 4, margin }.choose(&value, &features, 1).unwrap();
    let default = space.defaults().into_iter().next().unwrap();
    let best = chosen(0.0);
    assert!(best.gain > 1.0 && best.point != default, "{best:?}");
    assert!(latency_ns(&space, &best.point) < latency_ns(&space, &default));
    assert_eq!(chosen(best.gain), Chosen { point: default, gain: 1.0 });
}

#[test]
fn functions_are_judged_on_groups_that_they_have_not_seen() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let program =
        TrainingProgram { features: Features::new(&dag, &target, &space), trials: trials(&space) };
    let programs = vec![program; 7];
    let groups = [0, 0, 1, 1, 2, 3, 3];
    let folds = folds(&programs, &groups, Analysis::Factor, 2);
    assert_eq!(folds.len(), 4);
    let mut held_out: Vec<usize> = folds.iter().flat_map(|it| it.held_out.clone()).collect();
    held_out.sort_unstable();
    assert_eq!(held_out, [0, 1, 2, 3, 4, 5, 6], "each once");
    for fold in &folds {
        let of_fold: Vec<usize> = fold.held_out.iter().map(|it| groups[*it]).collect();
        let others = (0..7).filter(|it| !fold.held_out.contains(it)).map(|it| groups[it]);
        assert!(others.clone().all(|it| !of_fold.contains(&it)), "groups stay together");
    }
    assert!(
        super::folds(&programs[..2], &groups[..2], Analysis::Factor, 2).is_empty(),
        "one group"
    );
}

#[test]
fn exploring_proposes_schedules_that_were_not_tried() {
    let dag = dsl::program(MATMUL).unwrap();
    let target = target();
    let space = Space::new(&dag, &target);
    let program =
        TrainingProgram { features: Features::new(&dag, &target, &space), trials: trials(&space) };
    let value = train([&program].into_iter(), Analysis::Factor, 2);
    let found = explore(&value, &program, 12, 3, 2);
    assert!(found.len() > 3, "noise leads to different points: {found:?}");
    let is_new = |it: &Point| program.trials.iter().all(|(tried, _)| tried != it);
    assert!(found.iter().all(is_new));
    assert_eq!(found, explore(&value, &program, 12, 3, 1), "threads change nothing");
}
