//! Encoding and import: the trace of a point encodes to the point, and any trace imports as a sketch.

use super::programs::{Oracle, any_point, programs, random};
use crate::sketch::*;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Isa};
use tvmtune_schedule::{AxisId, Instruction, Schedule, StageId, nest};

fn targets() -> [Target; 3] {
    [
        Target::generic(Isa::Avx512),
        Target::generic(Isa::Avx2),
        GpuTarget::generic(Arch { sm: 90, exact: true }).into(),
    ]
}

/// The default and some random points of each sketch of each program.
fn for_each_point(mut check: impl FnMut(&Dag, &Target, &Sketch, &[u16])) {
    let mut random = random(3);
    for target in targets() {
        for (dag, _) in programs() {
            for sketch in sketches(&dag, &target) {
                check(&dag, &target, &sketch, &sketch.default);
                for _ in 0..8 {
                    let choices = any_point(&sketch, &mut random);
                    check(&dag, &target, &sketch, &choices);
                }
            }
        }
    }
}

#[test]
fn the_trace_of_a_point_encodes_to_it() {
    for_each_point(|_, _, sketch, choices| {
        let trace = sketch.instructions(choices);
        let encoded = sketch.encode(&trace).expect("a point of the sketch");
        assert!(encoded.is_exact, "{}: {choices:?}, not {:?}", sketch.name, encoded.choices);
        assert_eq!(sketch.instructions(&encoded.choices), trace);
    });
}

#[test]
fn other_factors_encode_to_the_nearest_point_and_other_structure_to_none() {
    let decision = |options: &[u64], kind| Decision {
        name: "tile".into(),
        kind,
        options: options.to_vec(),
        group: 0,
    };
    let decisions = vec![
        decision(&[1, 2, 4, 16], DecisionKind::Inner),
        decision(&[0, 1], DecisionKind::Choice),
    ];
    let split = |factors| Step::Split { stage: StageId(0), axis: AxisId(1), factors };
    let parse = |text: &str| -> Vec<Instruction> {
        text.split("; ").map(|it| it.parse().unwrap()).collect()
    };
    let steps = vec![
        split(vec![Factor::Open(DecisionId(0)), Factor::Times(3, DecisionId(0))]),
        Step::OneOf {
            decision: DecisionId(1),
            lists: vec![vec![], parse("annotate s0 a2 parallel")],
        },
    ];
    let sketch = Sketch::new("test", decisions, vec![0, 0], steps);
    let encode = |text: &str| sketch.encode(&parse(text)).map(|it| (it.choices, it.is_exact));
    assert_eq!(encode("split s0 a1 [4, 12]"), Some((vec![2, 0], true)));
    assert_eq!(encode("split s0 a1 [5, 12]; annotate s0 a2 parallel"), Some((vec![2, 1], false)));
    assert_eq!(encode("split s0 a1 [9, 40]"), Some((vec![3, 0], false)));
    assert_eq!(encode("split s0 a0 [4, 12]"), None);
    assert_eq!(encode("split s0 a1 [4]"), None);
    assert_eq!(encode("split s0 a1 [4, 12]; annotate s0 a3 parallel"), None);
    assert_eq!(encode("split s0 a1 [4, 12]; annotate s0 a2 parallel; inline s1"), None);
}

#[test]
fn an_imported_trace_is_the_default_of_its_sketch() {
    for_each_point(|dag, target, sketch, choices| {
        let trace = sketch.instructions(choices);
        let imported = Sketch::import_trace("imported", &trace, dag, target);
        assert_eq!(imported.instructions(&imported.default), trace);
        let encoded = imported.encode(&trace).expect("the default");
        assert_eq!((encoded.choices, encoded.is_exact), (imported.default.clone(), true));
        let has_splits = trace.iter().any(|it| matches!(it, Instruction::Split { .. }));
        assert_eq!(imported.decisions.is_empty(), !has_splits, "{trace:?}");
        for decision in &imported.decisions {
            assert!(decision.options.is_sorted_by(|a, b| a < b), "{decision:?}");
        }
    });
}

#[test]
fn points_near_an_imported_trace_apply_and_compute_the_program() {
    let mut random = random(11);
    let (mut n_near, mut n_fit) = (0, 0);
    for isa in [Isa::Avx512, Isa::Avx2] {
        for (dag, dims) in programs() {
            let oracle = Oracle::new(dag, dims);
            for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                let trace = sketch.instructions(&any_point(&sketch, &mut random));
                let imported =
                    Sketch::import_trace("imported", &trace, &oracle.dag, &Target::generic(isa));
                for n in 0..imported.decisions.len() {
                    let mut choices = imported.default.clone();
                    choices[n] = random(imported.decisions[n].options.len()) as u16;
                    let trace = imported.instructions(&choices);
                    let schedule = Schedule::replay(&oracle.dag, &trace).unwrap();
                    n_near += 1;
                    n_fit += usize::from(oracle.check(&schedule, isa));
                }
            }
        }
    }
    assert!(n_fit * 2 > n_near, "only {n_fit} of {n_near} points fit");
}

#[test]
fn a_layout_follows_the_tile_that_it_was_made_for() {
    let (dag, _) = programs().swap_remove(0);
    let target = Target::generic(Isa::Avx512);
    let trace = sketches(&dag, &target)[0].instructions(&sketches(&dag, &target)[0].default);
    let imported = Sketch::import_trace("imported", &trace, &dag, &target);
    let lanes = imported.decisions.iter().position(|it| it.name == "y j 1").expect("the vectors");
    let mut choices = imported.default.clone();
    let packed = |choices: &[u16]| {
        let schedule = Schedule::replay(&dag, &imported.instructions(choices)).unwrap();
        nest::lower(&schedule).to_string().lines().next().unwrap().to_owned()
    };
    assert_eq!(packed(&choices), "packed w[1, 9, 48]: f32");
    choices[lanes] -= 1;
    assert_eq!(packed(&choices), "packed w[1, 9, 35]: f32");
}

#[test]
fn a_trace_that_does_not_apply_is_imported_with_nothing_open() {
    let (dag, _) = programs().swap_remove(0);
    let trace: Vec<Instruction> =
        ["split s0 a0 [4]", "inline s7"].map(|it| it.parse().unwrap()).to_vec();
    let imported = Sketch::import_trace("imported", &trace, &dag, &Target::generic(Isa::Avx2));
    assert_eq!((imported.instructions(&[]), imported.n_points()), (trace, 1));
}
