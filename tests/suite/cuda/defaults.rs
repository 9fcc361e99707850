//! Default schedules for GPUs: their constructs, and their resource usage.

use proptest::prelude::*;
use tvmtune_ir::dag::{Dag, Expr};
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Facts;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Target};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::arbitrary::{Case, any_case, runner};
use tvmtune_schedule::nest::{self, Stmt};
use tvmtune_schedule::{LoopKind, Schedule};
use tvmtune_space::default;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::compile::{Compiler, Source, Usage};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use super::target;

/// The library of annotated programs.
const KERNELS: [&str; 3] = [
    include_str!("../../../kernels/src/conv.rs"),
    include_str!("../../../kernels/src/matmul.rs"),
    include_str!("../../../kernels/src/rows.rs"),
];

/// Times that one thread may run a statement while others wait.
const LITTLE: i64 = 32;

/// The most often that a statement runs which stands in no loop over threads, for any dimensions.
fn alone(body: &[Stmt], facts: &Facts) -> i64 {
    let runs = |stmt: &Stmt| match stmt {
        Stmt::For { kind: LoopKind::Thread, .. } => 0,
        Stmt::For { kind: LoopKind::Parallel, body, .. } | Stmt::If { body, .. } => {
            alone(body, facts)
        }
        Stmt::For { extent, body, .. } => {
            extent.interval(facts).hi.max(0).saturating_mul(alone(body, facts))
        }
        // The start of a reduction that all threads share.
        Stmt::Store { value: Expr::Const(..), .. } => 0,
        Stmt::Store { .. } | Stmt::Update { .. } => 1,
    };
    body.iter().map(runs).max().unwrap_or(0)
}

#[test]
fn no_thread_of_a_default_schedule_works_alone() {
    let run = |case: Case| {
        let schedule = default::schedule(&case.dag, &target().into());
        let nest = nest::lower(&schedule);
        let most = alone(&nest.body, &nest.facts());
        prop_assert!(most < LITTLE, "{most} times: {:?} {:?}\n{nest}", case.family, case.dims);
        Ok(())
    };
    runner(1000).run(&any_case(), run).unwrap();
}

/// The programs of a file.
fn programs(text: &str) -> Vec<Dag> {
    let mut found = Vec::new();
    for item in syn::parse_file(text).unwrap().items {
        let syn::Item::Fn(mut function) = item else { continue };
        let attributes = std::mem::take(&mut function.attrs);
        let Some(it) = attributes.iter().find(|it| it.path().is_ident("autotune")) else {
            continue;
        };
        let options = it.meta.require_list().unwrap().tokens.clone();
        found.push(dsl::build(&dsl::parse(options, &function).unwrap()).unwrap());
    }
    found
}

/// The text of a schedule for an architecture; its kernels, as the assembler sees them.
fn compiled(nvrtc: &Nvrtc, schedule: &Schedule, arch: Arch) -> Option<(String, Vec<Usage>)> {
    let text = tvmtune_cuda::generate(schedule).ok()?.unit.source;
    let name = arch.to_string();
    let source = Source { name: "kernel.cu", text: &text, arch: &name, options: &[] };
    let kernels = match Compiler::new(nvrtc, None).compile(&source) {
        Ok(code) => code.kernels,
        Err(error) => panic!("{arch}: {error}\n{text}"),
    };
    Some((text, kernels))
}

#[test]
fn known_layers_compile_for_every_architecture_and_no_default_schedule_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let programs: Vec<Dag> = KERNELS.iter().flat_map(|it| programs(it)).collect();
    assert!(programs.len() >= 29, "only {} programs", programs.len());
    let (mut random, mut n_sampled) = (Random::new(3), 0);
    for arch in Arch::ALL {
        let target = Target::Gpu(GpuTarget::generic(arch));
        for (n, dag) in programs.iter().enumerate() {
            let (text, kernels) = compiled(nvrtc, &default::schedule(dag, &target), arch).unwrap();
            for it in kernels {
                let spilled = it.spill_store_bytes.max(it.spill_load_bytes);
                assert_eq!(spilled, 0, "{arch}: {}: {} registers\n{text}", it.kernel, it.registers);
            }
            if n % 6 != 0 {
                continue;
            }
            let space = Space::new(dag, &target);
            let trace = space.instructions(&space.random(&mut random));
            let schedule = Schedule::replay(dag, &trace).unwrap();
            n_sampled += usize::from(compiled(nvrtc, &schedule, arch).is_some());
        }
    }
    assert!(n_sampled >= 20, "{n_sampled}");
}
