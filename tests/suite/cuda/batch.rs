//! Many programs compiled as one: most of NVRTC's work on a small kernel is the same for all.

use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use tvmtune_cuda::Generated;
use tvmtune_emulator::{Module, Options};
use tvmtune_runtime::cuda::nvrtc::Nvrtc;
use tvmtune_schedule::Schedule;
use tvmtune_schedule::arbitrary::{Case, runner};
use tvmtune_tests::emulate;
use tvmtune_tuner::cost;

use super::{ptx, target};

/// Programs of one compilation.
const TOGETHER: usize = 25;
/// Attempts at a simpler program that fails too.
const ATTEMPTS: usize = 200;

/// Joins programs; their declarations of device functions stand once.
fn together<'s>(sources: impl Iterator<Item = &'s str>) -> String {
    let mut declared = BTreeSet::new();
    let mut all = String::new();
    for line in sources.flat_map(str::lines) {
        if !line.starts_with("TVMTUNE_") || declared.insert(line) {
            all.push_str(line);
            all.push('\n');
        }
    }
    all
}

/// Draws so many programs, and checks the schedule that `schedule` makes of each; returns how many
/// could be placed.
pub(super) fn check_all<S, T>(
    nvrtc: &Nvrtc,
    n: usize,
    strategy: &S,
    schedule: &dyn Fn(&Case, &T) -> Schedule,
) -> usize
where
    S: Strategy<Value = (Case, T)>,
    T: Debug,
{
    let mut runner = runner(n as u32);
    let mut n_placed = 0;
    for first in (0..n).step_by(TOGETHER) {
        let draw = |_| strategy.new_tree(&mut runner).unwrap();
        let mut drawn: Vec<S::Tree> = (first..n.min(first + TOGETHER)).map(draw).collect();
        let values = drawn.iter().enumerate().map(|(n, it)| named(it.current(), n));
        let (cases, placed): (Vec<Case>, Vec<Option<Generated>>) = values
            .map(|(case, with)| {
                let generated = tvmtune_cuda::generate(&schedule(&case, &with)).ok();
                (case, generated)
            })
            .unzip();
        let sources = placed.iter().flatten().map(|it| it.unit.source.as_str());
        let all = together(sources);
        if all.is_empty() {
            continue;
        }
        let module = Module::parse(&ptx(nvrtc, &all, "compute_90a"));
        let module = module.unwrap_or_else(|it| panic!("{it}\n{all}"));
        for ((tree, case), generated) in drawn.iter_mut().zip(&cases).zip(&placed) {
            let Some(generated) = generated else { continue };
            n_placed += 1;
            if let Err(found) = check(case, generated, &module) {
                panic!("{}", simplest(nvrtc, tree, schedule).unwrap_or(found));
            }
        }
    }
    n_placed
}

/// A program whose kernels have names of their own.
fn named<T>((mut case, with): (Case, T), n: usize) -> (Case, T) {
    case.dag.name = format!("{}{n}", case.dag.name);
    (case, with)
}

/// Compares a program with the interpreter; returns the difference.
fn check(case: &Case, generated: &Generated, module: &Module) -> Result<(), String> {
    let text = &generated.unit.source;
    let shown = || format!("{:?} {:?}\n{}\n{text}", case.family, case.dims, generated.nest);
    let ns = cost::gpu::estimate(&generated.grid, &target()).ns;
    if ns.is_nan() || ns <= 0.0 {
        return Err(format!("{ns} ns\n{}", shown()));
    }
    let (params, scalars) = (case.params(), case.scalars());
    let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    let options = Options::default();
    let results = emulate::run(generated, module, &case.dims, &params, &scalars, &options)
        .map_err(|fault| format!("{fault}\n{}", shown()))?;
    for (result, expected) in results.iter().zip(&expected) {
        if let Some(error) = result.max_error(expected, 1e-5, 1e-5) {
            return Err(format!("{error}\n{}", shown()));
        }
    }
    Ok(())
}

/// Returns the failure of the simplest program like this one that fails, alone.
fn simplest<T: Debug>(
    nvrtc: &Nvrtc,
    tree: &mut impl ValueTree<Value = (Case, T)>,
    schedule: &dyn Fn(&Case, &T) -> Schedule,
) -> Option<String> {
    let fails = |(case, with): (Case, T)| {
        let generated = tvmtune_cuda::generate(&schedule(&case, &with)).ok()?;
        let module = Module::parse(&ptx(nvrtc, &generated.unit.source, "compute_90a")).unwrap();
        let found = check(&case, &generated, &module).err()?;
        Some(format!("{found}\n{case:?}\n{with:?}"))
    };
    let mut found = fails(tree.current());
    let mut may_go_on = tree.simplify();
    for _ in 0..ATTEMPTS {
        if !may_go_on {
            break;
        }
        may_go_on = match fails(tree.current()) {
            Some(it) => {
                found = Some(it);
                tree.simplify()
            }
            None => tree.complicate(),
        };
    }
    found
}
