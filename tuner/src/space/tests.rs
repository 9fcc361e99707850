//! Sampling and moves: in range, deterministic, covering, and allowed.

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

/// The space of a program whose hand-written kernel has these knobs and constraints.
fn knobs(knobs: &str, constraints: &str) -> Space {
    let text = format!("extern \"C\" __global__ void k() {{}}\nint read[] = {{{constraints}}};\n");
    let source = format!(
        "#[autotune(dims(N = 1..=4096), template = \"kernels/k.cu\" ({text:?}), knobs({knobs}),
            constraints({constraints}), kernels(k(grid = N, block = 32)))]
         fn k(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|n| x[[n]]) }}"
    );
    let dag = tvmtune_ir::dsl::program(&source).unwrap();
    let gpu = tvmtune_ir::target::gpu::Arch { sm: 80, exact: false };
    let gpu = tvmtune_ir::target::GpuTarget::generic(gpu);
    Space::new(&dag, &Target::Gpu(gpu))
}

/// All points of a space that has one sketch.
fn all_points(space: &Space) -> Vec<Point> {
    let mut all = vec![Vec::new()];
    for decision in &space.sketches[0].decisions {
        let options = 0..decision.options.len() as u16;
        let with = |it: &Vec<u16>| {
            options.clone().map(|n| [it.as_slice(), &[n]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all.into_iter().map(|choices| Point { sketch: 0, choices }).collect()
}

/// Draws points by every operator; returns those that were seen.
fn draw(space: &Space, n: usize) -> BTreeSet<Point> {
    let mut random = Random::new(7);
    let mut points = space.defaults();
    for _ in 0..n {
        let (one, other) = (space.random(&mut random), &points[random.below(points.len())]);
        let moved = [space.mutate(other, &mut random), space.crossover(&one, other, &mut random)];
        let near = [1, 2, 4].into_iter().flat_map(|it| space.neighbors(&one, it));
        let near: Vec<Point> = near.map(|it| it.point).collect();
        points.extend(near.into_iter().chain(moved).chain([one]));
    }
    let value = random.below(2000) as u64;
    points.push(space.nearest(0, &|_, _| Some(value)));
    points.into_iter().collect()
}

/// The knobs of the example: about half of the settings are allowed.
#[test]
fn settings_that_constraints_refuse_are_never_proposed() {
    let space = knobs(
        "BLOCK in [256, 64, 128, 512], ITEMS in [4, 1, 2, 8, 16], COPIES in [2, 1, 4, 8]",
        "BLOCK * ITEMS <= 4096, COPIES * 32 <= BLOCK, COPIES * 1024 <= 49152",
    );
    let allowed: BTreeSet<Point> =
        all_points(&space).into_iter().filter(|it| space.allows(it)).collect();
    assert_eq!(allowed.len(), 61);
    assert_eq!(draw(&space, 200), allowed, "all of them, and no others");
}

/// Knobs of which none can move alone.
#[test]
fn knobs_that_depend_on_each_other_move_together() {
    let space =
        knobs("A in [8, 1, 2, 4, 16, 32, 64], B in [8, 1, 2, 4, 16, 32, 64]", "A * B == 64");
    let start = space.defaults().remove(0);
    let near = space.neighbors(&start, 1);
    let choices: Vec<&[u16]> = near.iter().map(|it| it.point.choices.as_slice()).collect();
    assert_eq!(choices, [[2, 4], [4, 2]]);
    assert_eq!(draw(&space, 60).len(), 7);
    let mut random = Random::new(1);
    let moved = |_| space.mutate(&start, &mut random);
    assert!((0..100).map(moved).all(|it| it != start && space.allows(&it)));
}

/// Of 64^8 settings, constraints allow few, and in one case the default alone.
#[test]
fn few_allowed_settings_of_many_are_found_or_given_up_quickly() {
    let many: Vec<String> =
        (0..8).map(|n| format!("K{n} in [1, {}]", list((2..=64).collect::<Vec<_>>()))).collect();
    let product = (0..8).map(|n| format!("K{n}")).collect::<Vec<_>>().join(" * ");
    let space = knobs(&many.join(", "), &format!("{product} <= 4, K0 == K1"));
    let seen = draw(&space, 50);
    assert!(seen.iter().all(|it| space.allows(it)));
    // 1 alone, one knob of 2, 3 or 4 or two of 2 among six, and both of 2 in the first pair.
    assert!(seen.len() > 15 && seen.len() <= 1 + 6 * 3 + 15 + 1, "{}", seen.len());
    let space = knobs(&many.join(", "), &format!("{product} % 1000003 == 1"));
    let seen = draw(&space, 20);
    assert!(seen.iter().all(|it| space.allows(it)));
}

fn list(values: Vec<u64>) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}
