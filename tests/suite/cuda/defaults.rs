//! Default schedules for GPUs, as far as no compiler is needed to judge them.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tvmtune_core::arbitrary::{Case, any_case};
use tvmtune_core::dag::Expr;
use tvmtune_core::nest::{self, Stmt};
use tvmtune_core::poly::{DimId, Facts};
use tvmtune_core::schedule::{LoopKind, default};

use super::target;

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
