//! Stores of 8 and 16 bits: the lanes that have a row exchange what they have of it, and each stores
//! runs of eight columns.

use tvmtune_acceptance::problem::Problem;
use tvmtune_acceptance::{bundle, case};
use tvmtune_cuda::Generated;
use tvmtune_cuda::grid::Stmt;
use tvmtune_emulator::{Module, Options};
use tvmtune_ir::dsl;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::nest;
use tvmtune_space::sketch::TemplateKind;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::persistent::data;
use super::programs::linear;
use super::{AMPERE, HOPPER, Launch, check_results, default_point, generate, ptx, target, timing};

/// A template on an architecture that has its instructions.
type Rule = (TemplateKind, Arch);

const RULES: [Rule; 3] = [
    (TemplateKind::Mma, AMPERE),
    (TemplateKind::Wgmma, HOPPER),
    (TemplateKind::WgmmaWarpSpecialized, HOPPER),
];

/// Returns whether lanes exchange results.
fn exchanges(generated: &Generated) -> bool {
    let is_exchange = |it: &Stmt| matches!(it, Stmt::TransposeQuad { .. });
    generated.grid.body.iter().any(|it| nest::any(&it.body, &is_exchange))
}

/// Compiles a text for an architecture.
fn compiled(nvrtc: &Nvrtc, text: &str, arch: Arch) -> Module {
    let compute = arch.to_string().replace("sm_", "compute_");
    Module::parse(&ptx(nvrtc, text, &compute)).unwrap()
}

/// Runs the default point of a template and random ones at some numbers of rows; returns in how many
/// of them lanes exchange results, and of how many.
#[track_caller]
fn run(text: &str, (template, arch): Rule, rows: &[i64]) -> Option<(usize, usize)> {
    let nvrtc = nvrtc()?;
    let dag = dsl::program(text).unwrap();
    let space = Space::new(&dag, &GpuTarget::generic(arch).into());
    let default = default_point(&space, template).expect("a sketch with matrix instructions");
    let mut random = Random::new(5);
    let sampled = (0..5).map(|_| space.random_of(default.sketch, &mut random));
    let points: Vec<_> = [default.clone()].into_iter().chain(sampled).collect();
    let (mut n_exchanging, mut n_placed) = (0, 0);
    for point in points {
        let schedule = Schedule::replay(&dag, &space.instructions(&point)).unwrap();
        let Ok(generated) = generate(&schedule, arch) else { continue };
        n_placed += 1;
        n_exchanging += usize::from(exchanges(&generated));
        let module = compiled(nvrtc, &generated.unit.source, arch);
        for (n, rows) in rows.iter().enumerate() {
            let (params, expected) = &data(&dag, &[*rows]);
            let launch = Launch { dims: &[*rows], params, scalars: &[], expected };
            check_results(&generated, &module, &launch, &timing(n), &|_| (0.0, 0.0));
        }
    }
    Some((n_exchanging, n_placed))
}

#[test]
fn results_of_16_bits_are_stored_by_runs_of_columns() {
    // Runs of columns by the four and not, in tiles that are whole and not.
    for (n, dtype) in [(136, "bf16"), (24, "f16"), (64, "bf16"), (40, "f16")] {
        for rule in RULES {
            let text = linear(&format!("M = 1..=70, N = {n}, K = 32"), dtype);
            let Some((n_exchanging, n_placed)) = run(&text, rule, &[1, 37, 64, 70]) else { return };
            assert!(n_exchanging >= 1, "{n} {rule:?}: none of {n_placed}");
        }
    }
}

#[test]
fn results_of_8_bits_are_stored_by_runs_of_columns() {
    let text = "#[autotune(dims(M = 1..=70, N = 72, K = 64))]
        fn quantized(x: Tensor<i8, M, K>, w: Weight<i8, N, K>) -> Tensor<i8, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] as i32 * w[[j, k]] as i32));
            compute(|i, j| max(min(h[[i, j]], 100), -100) as i8)
        }";
    for rule in RULES {
        let Some((n_exchanging, n_placed)) = run(text, rule, &[1, 63, 70]) else { return };
        assert!(n_exchanging >= 1, "{rule:?}: none of {n_placed}");
    }
}

#[test]
fn rows_that_do_not_begin_at_whole_runs_are_stored_pair_by_pair() {
    for rule in RULES {
        // A tensor map needs rows of 16 bytes, of results none.
        let text = linear("M = 1..=70, N = 44, K = 32", "bf16");
        let Some((n_exchanging, n_placed)) = run(&text, rule, &[1, 70]) else { return };
        assert!(n_placed > 0 && n_exchanging == 0, "{rule:?}: {n_exchanging} of {n_placed}");
    }
}

#[test]
fn lanes_that_exchange_nothing_or_not_all_are_seen() {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(&linear("M = 1..=70, N = 136, K = 32", "bf16")).unwrap();
    let space = Space::new(&dag, &GpuTarget::generic(HOPPER).into());
    let point = default_point(&space, TemplateKind::WgmmaWarpSpecialized).unwrap();
    let schedule = Schedule::replay(&dag, &space.instructions(&point)).unwrap();
    let generated = generate(&schedule, HOPPER).unwrap();
    let (params, expected) = &data(&dag, &[70]);
    let is_right = |text: &str| {
        let module = compiled(nvrtc, text, HOPPER);
        let found = emulate::run(&generated, &module, &[70], params, &[], &Options::default());
        found.is_ok_and(|it| it[0].max_error(&expected[0], 0.0, 0.0).is_none())
    };
    let source = &generated.unit.source;
    let line = source.lines().find(|it| it.contains("quad_transpose<")).expect("an exchange");
    assert!(is_right(source));
    let wrong = [
        source.replace(line, ""),
        source.replace(line, &format!("{line}{line}")),
        source.replace(line, &format!("if (threadIdx.x < 64) {line}")),
    ];
    for wrong in wrong {
        assert!(!is_right(&wrong), "{wrong}");
    }
}

#[test]
fn lanes_that_overwrite_what_others_read_wait_for_them() {
    let Some(nvrtc) = nvrtc() else { return };
    let case = case::named("residual_bf16").unwrap();
    let check = case.checks[0];
    let problem = Problem::new(case, check.dims).unwrap();
    let (_, _, generated) = bundle::checked(&problem, &target(), 0).unwrap().swap_remove(0);
    let case = problem.case(check.at[0]);
    let (params, scalars) = (case.params(), case.scalars());
    let run = |text: &str| {
        let module = compiled(nvrtc, text, HOPPER);
        emulate::run(&generated, &module, case.dims(), &params, &scalars, &Options::default())
    };
    let source = &generated.unit.source;
    assert!(run(source).is_ok(), "{source}");
    let unordered = source.replace("quad_transpose<true, true>", "quad_transpose<true, false>");
    assert_ne!(*source, unordered, "lanes exchange results in place");
    assert!(run(&unordered).is_err_and(|it| it.to_string().contains("race")));
}
