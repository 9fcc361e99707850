//! Sampling and moves: in range, deterministic, and covering.

use std::collections::BTreeSet;

use super::*;
use tvmtune_ir::target::Isa;
use tvmtune_space::sketch::DecisionKind;

/// Two levels of one axis, and an order.
fn space() -> Space {
    let decision = |name: &str, kind, options: &[u64], group| Decision {
        name: name.into(),
        kind,
        options: options.to_vec(),
        group,
    };
    let decisions = vec![
        decision("i inner", DecisionKind::Inner, &[1, 2, 4, 8], 0),
        decision("i outer", DecisionKind::Outer, &[1, 4, 16], 0),
        decision("order", DecisionKind::Order, &[0, 1, 2], 1),
    ];
    Space::from_sketches(vec![Sketch::new("test", decisions, vec![2, 1, 0], Vec::new())])
}

#[test]
fn sampling_is_deterministic_and_reaches_every_option() {
    let draw = |seed| {
        let mut random = Random::new(seed);
        (0..600).map(|_| space().random(&mut random)).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    let seen: BTreeSet<Point> = draw(3).into_iter().collect();
    assert_eq!(seen.len() as u64, space().n_points());
}

#[test]
fn neighbors_are_one_option_away_or_one_factor_moved() {
    let near = space().neighbors(&space().defaults()[0], 1);
    let choices: Vec<&[u16]> = near.iter().map(|it| it.point.choices.as_slice()).collect();
    let expected: [&[u16]; 8] = [
        &[1, 1, 0],
        &[3, 1, 0],
        &[2, 0, 0],
        &[2, 2, 0],
        &[2, 1, 1],
        &[2, 1, 2],
        &[1, 2, 0],
        &[3, 0, 0],
    ];
    assert_eq!(choices, expected);
    let far = space().neighbors(&space().defaults()[0], 2);
    assert_eq!(far.len(), 1, "{far:?}");
    assert_eq!((far[0].point.choices[0], far[0].is_later), (0, false));
}

#[test]
fn without_analysis_every_option_is_as_likely() {
    let (mut random, space) = (Random::new(1), Space { is_analytic: false, ..space() });
    assert!(space.defaults().is_empty());
    let kept = (0..900).filter(|_| space.random(&mut random).choices[2] == 0).count();
    assert!((250..350).contains(&kept), "{kept}");
}

#[test]
fn mutation_changes_something_and_stays_in_the_space() {
    let (space, mut random) = (space(), Random::new(5));
    let mut point = space.defaults()[0].clone();
    for _ in 0..500 {
        let next = space.mutate(&point, &mut random);
        assert_ne!(next, point);
        let options = space.decisions(&next).iter().map(|it| it.options.len());
        assert!(next.choices.iter().zip(options).all(|(it, n)| (*it as usize) < n));
        point = next;
    }
}

#[test]
fn crossover_keeps_the_levels_of_an_axis_together() {
    let (space, mut random) = (space(), Random::new(9));
    let (one, other) =
        (Point { sketch: 0, choices: vec![0, 0, 0] }, Point { sketch: 0, choices: vec![3, 2, 2] });
    let children: BTreeSet<Vec<u16>> =
        (0..100).map(|_| space.crossover(&one, &other, &mut random).choices).collect();
    let expected = [[0, 0, 0], [0, 0, 2], [3, 2, 0], [3, 2, 2]].map(|it| it.to_vec());
    assert_eq!(children, BTreeSet::from(expected));
}

#[test]
fn options_of_another_workload_map_to_the_nearest() {
    let point = space().nearest(0, &|name, _| (name == "i inner").then_some(6));
    assert_eq!(point.choices, [3, 1, 0]);
}

#[test]
fn a_trace_is_imported_once_and_has_neighbors() {
    let text = "tvmtune dag v1\ninput t0: f32[60]\nt1: f32[60] = exp(t0[v0])\nreturn t1\n";
    let dag: Dag = text.parse().unwrap();
    let target = Target::generic(Isa::Avx512);
    let mut space = Space::new(&dag, &target);
    let n_sketches = space.sketches.len();
    let default = space.defaults()[0].clone();
    let known = space.instructions(&default);
    assert_eq!(space.import_trace(&dag, &target, &known, "known"), default);
    assert_eq!(space.sketches.len(), n_sketches);

    let trace: Vec<Instruction> =
        ["split s0 a0 [5, 4]", "reorder s0 [a2, a1, a3]"].map(|it| it.parse().unwrap()).to_vec();
    let point = space.import_trace(&dag, &target, &trace, "new");
    assert_eq!(space.instructions(&point), trace);
    assert_eq!(space.import_trace(&dag, &target, &trace, "new"), point);
    let near = space.neighbors(&point, 1)[0].point.clone();
    assert_ne!(space.instructions(&near), trace);
    assert_eq!(space.import_trace(&dag, &target, &space.instructions(&near), "new"), near);
    assert_eq!(space.sketches.len(), n_sketches + 1);

    let other: Vec<Instruction> = vec!["split s0 a0 [7]".parse().unwrap()];
    let other = space.import_trace(&dag, &target, &other, "new");
    assert_eq!(space.sketch(&other).name, "new 2");
}
