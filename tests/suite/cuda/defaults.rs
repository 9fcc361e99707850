//! Default schedules for GPUs: what they are made of, and what the compiler makes of them.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tvmtune_core::arbitrary::{Case, any_case};
use tvmtune_core::codegen::generate_cuda;
use tvmtune_core::dag::{self, Dag, Expr};
use tvmtune_core::dsl;
use tvmtune_core::nest::{self, Stmt};
use tvmtune_core::poly::{DimId, Facts};
use tvmtune_core::schedule::{LoopKind, default};
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::compile::{Compiler, Source};

use super::target;

/// The library of annotated programs.
const KERNELS: [&str; 3] = [
    include_str!("../../../kernels/src/conv.rs"),
    include_str!("../../../kernels/src/matmul.rs"),
    include_str!("../../../kernels/src/rows.rs"),
];

/// How often one thread may run a statement while others wait.
const LITTLE: i64 = 32;

/// The most often that a statement runs which stands in no loop over threads, for any dimensions.
fn alone(body: &[Stmt], facts: &Facts) -> i64 {
    let of = |stmt: &Stmt| match stmt {
        Stmt::For { kind: LoopKind::Thread, .. } => 0,
        Stmt::For { kind: LoopKind::Parallel, body, .. } | Stmt::If { body, .. } => {
            alone(body, facts)
        }
        Stmt::For { extent, body, .. } => {
            extent.interval(facts).hi.max(0).saturating_mul(alone(body, facts))
        }
        // Where a reduction starts that all share.
        Stmt::Store { value: Expr::Const(..), .. } => 0,
        Stmt::Store { .. } | Stmt::Update { .. } => 1,
    };
    body.iter().map(of).max().unwrap_or(0)
}

#[test]
fn no_thread_of_a_default_schedule_works_alone() {
    let run = |case: Case| {
        let schedule = default::schedule(&case.dag, &target().into());
        let nest = nest::lower(&schedule);
        let mut facts = Facts::default();
        for (n, dim) in nest.dims.iter().enumerate() {
            facts.bound_dim(DimId(n as u32), dim.range);
        }
        let most = alone(&nest.body, &facts);
        prop_assert!(most < LITTLE, "{most} times: {:?} {:?}\n{nest}", case.family, case.dims);
        Ok(())
    };
    let config = Config { cases: 1000, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&any_case(), run).unwrap();
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
        found.push(dag::build(&dsl::parse(options, &function).unwrap()).unwrap());
    }
    found
}

#[test]
fn no_default_schedule_of_a_known_layer_spills() {
    let Some(nvrtc) = nvrtc() else { return };
    let programs: Vec<Dag> = KERNELS.iter().flat_map(|it| programs(it)).collect();
    assert!(programs.len() >= 29, "only {} programs", programs.len());
    for dag in programs {
        let generated = generate_cuda(&default::schedule(&dag, &target().into())).unwrap();
        let text = &generated.unit.source;
        let source = Source { name: "kernel.cu", text, arch: "sm_90a", options: &[] };
        for it in Compiler::new(nvrtc, None).compile(&source).unwrap().kernels {
            let spilled = it.spill_store_bytes.max(it.spill_load_bytes);
            assert_eq!(spilled, 0, "{}: {} registers\n{text}", it.kernel, it.registers);
        }
    }
}
