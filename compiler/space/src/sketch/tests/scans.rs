//! Scans on CPUs: in order where other axes have elements for all lanes, by blocks where not.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::sketch::sketches;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::{Instruction, Schedule, nest};

fn program(dims: &str, signature: &str, body: &str) -> Dag {
    let text = format!("#[autotune(dims({dims}))] fn f({signature} {{ {body} }}");
    dsl::program(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A program of prefixes of a matrix.
fn matrix(dims: &str, reduction: &str) -> Dag {
    let body = format!("compute(|i, j| {reduction})");
    program(dims, "x: Tensor<f32, M, N>) -> Tensor<f32, M, N>", &body)
}

fn names(dag: &Dag, target: &CpuTarget) -> Vec<String> {
    sketches(dag, &Target::Cpu(*target)).into_iter().map(|it| it.name).collect()
}

#[test]
fn columns_are_scanned_in_order_and_rows_by_blocks() {
    let target = CpuTarget::generic(Isa::Avx512);
    let first = matrix("M = 512, N = 1024", "sum(0..=i, |k| x[[k, j]])");
    let schedule = default::schedule(&first, &target.into());
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    local out_state[64]: f32
    parallel j_0 in 0..16
      vectorized j_1 in 0..64
        out_state[j_1] = 0
      for i in 0..512
        vectorized j_1 in 0..64
          out_state[j_1] = x[i, 64*j_0 + j_1] + out_state[j_1]
        vectorized j_1 in 0..64
          out[i, 64*j_0 + j_1] = out_state[j_1]
    ");
    let all = names(&first, &target);
    assert_eq!(all[0], "out: recurrence");
    assert!(all[1].starts_with("out_within: "), "{all:?}");

    let last = matrix("M = 512, N = 1024", "sum(0..=j, |k| x[[i, k]])");
    let nest = nest::lower(&default::schedule(&last, &target.into())).to_string();
    assert!(nest.contains("local out_within"), "{nest}");
    let all = names(&last, &target);
    assert!(!all.iter().any(|it| it.contains("recurrence")), "{all:?}");
}

#[test]
fn a_scan_in_order_has_elements_for_many_threads_by_default() {
    let few = matrix("M = 512, N = 40", "sum(0..=i, |k| x[[k, j]])");
    let is_first = |threads: u32| {
        let all = names(&few, &CpuTarget { threads, ..CpuTarget::generic(Isa::Avx512) });
        assert!(all.iter().any(|it| it == "out: recurrence"), "{all:?}");
        all[0] == "out: recurrence"
    };
    assert!(is_first(12));
    assert!(!is_first(13));
    let short = matrix("M = 16, N = 1024", "sum(0..=i, |k| x[[k, j]])");
    assert!(!names(&short, &CpuTarget::generic(Isa::Avx512))[0].contains("recurrence"));
}

#[test]
fn rows_whose_order_is_fixed_are_scanned_in_order_and_those_of_integers_by_blocks() {
    let scans = |dtype: &str| -> Vec<&'static str> {
        let source = format!(
            "#[autotune(dims(M = 512, N = 1024), numerics = \"fixed\")]
             fn f(x: Tensor<{dtype}, M, N>) -> Tensor<{dtype}, M, N> {{
                 compute(|i, j| sum(0..=j, |k| x[[i, k]]))
             }}"
        );
        let dag = dsl::program(&source).unwrap();
        let schedule = default::schedule(&dag, &Target::generic(Isa::Avx2));
        let kind = |it: &Instruction| match it {
            Instruction::ScanInOrder { .. } => Some("in order"),
            Instruction::Scan { .. } => Some("by blocks"),
            _ => None,
        };
        schedule.trace.iter().filter_map(kind).collect()
    };
    assert_eq!(scans("f32"), ["in order"]);
    assert_eq!(scans("i32"), ["by blocks", "by blocks"]);
}

#[test]
fn operands_of_a_scan_in_order_are_inlined() {
    let dag = program(
        "M = 512, N = 1024",
        "x: Tensor<f32, M, N>) -> Tensor<f32, M, N>",
        "let e = compute(|i, j| exp(x[[i, j]]));
         compute(|i, j| sum(0..=i, |k| e[[k, j]]))",
    );
    let target = CpuTarget::generic(Isa::Avx512);
    assert_eq!(names(&dag, &target)[0], "out: recurrence");
    let schedule = default::schedule(&dag, &target.into());
    assert!(schedule.trace.contains(&Instruction::Inline { stage: tvmtune_schedule::StageId(0) }));
}

#[test]
fn every_point_of_a_scan_computes_the_program() {
    let dims = "M = 1..=50, N = 19";
    let signature = "x: Tensor<f32, M, N>) -> Tensor<f32, M, N>";
    let mut programs: Vec<Dag> = [
        "sum(0..=i, |k| x[[k, j]])",
        "sum(0..i, |k| x[[k, j]])",
        "max(i..M, |k| x[[k, j]])",
        "min(0..M, |k| if k + 3 <= i { x[[k, j]] } else { f32::INFINITY })",
        "sum((0..=i, 0..N), |k, l| x[[k, l]])",
        "sum((i + 1..M, 0..N), |k, l| x[[k, l]])",
    ]
    .map(|it| matrix(dims, it))
    .into();
    programs.extend(
        [
            // Both axes, a row that needs prefixes, and prefixes of prefixes along one axis.
            "let s: Tensor<f32, M, N> = compute(|i, j| sum(0..=j, |k| x[[i, k]]));
             compute(|i, j| sum(0..=i, |k| s[[k, j]]))",
            "let s: Tensor<f32, M, N> = compute(|i, j| sum(0..=i, |k| x[[k, j]]));
             let m = compute(|i| max(0..N, |j| s[[i, j]]));
             compute(|i, j| s[[i, j]] - m[[i]])",
            "let s: Tensor<f32, M, N> = compute(|i, j| max(0..=i, |k| x[[k, j]] * 0.5));
             compute(|i, j| sum(i..M, |k| s[[k, j]]))",
        ]
        .map(|it| program(dims, signature, it)),
    );
    let mut random = random(1);
    for dag in programs {
        for m in [2, 50] {
            let oracle = Oracle::new(dag.clone(), vec![m]);
            for isa in [Isa::Avx512, Isa::Avx2] {
                for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                    for _ in 0..2 {
                        let trace = sketch.instructions(&any_point(&sketch, &mut random));
                        let schedule = Schedule::replay(&oracle.dag, &trace)
                            .unwrap_or_else(|error| panic!("{}: {error:?}", sketch.name));
                        oracle.check(&schedule, isa);
                    }
                }
            }
        }
    }
}
