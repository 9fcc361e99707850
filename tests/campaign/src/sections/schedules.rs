//! Random schedules of random programs and of those of the corpus, executed: points of the spaces that
//! are searched, random primitives, and traces carried over to other extents.

use std::time::Duration;

use tvmtune_ir::dag::{DType, Dag, Expr};
use tvmtune_ir::poly::{Facts, Interval};
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::arbitrary::{any_case, any_moves, move_by_move, scheduled};
use tvmtune_schedule::nest::{self, Nest, Stmt};
use tvmtune_schedule::repair::repair;
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_tuner::space::Space;

use crate::case::Case;
use crate::corpus::PROGRAMS;
use crate::execute::{self, Comparison, ISAS};
use crate::generate::{self, Flavor};
use crate::launch::{Launch, Numbers, elements, volume};
use crate::program;
use crate::reduced::reduced;
use crate::section::{Problem, Section, Verdict};

/// Points of computes that a launch may have: the interpreters take microseconds for each.
const MAX_VOLUME: f64 = 60_000.0;

/// Iterations of a nest that a launch may have.
const MAX_ITERATIONS: f64 = 30.0 * MAX_VOLUME;

/// The largest extent in the range of a program that is scheduled at random.
const MAX_EXTENT: i64 = 10_000;

/// The most primitives that are drawn.
const MAX_MOVES: usize = 20;

/// The section.
pub(super) struct Schedules;

/// A program at some extents, and how its results compare.
struct Subject {
    dag: Dag,
    dims: Vec<i64>,
    numbers: Numbers,
    /// By type; `None` where results cannot be compared with the definition.
    tolerance: Option<fn(DType) -> f64>,
}

impl Section for Schedules {
    fn name(&self) -> &'static str {
        "schedules"
    }

    fn about(&self) -> &'static str {
        "random schedules of random programs, executed for every instruction set"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn cases_of_a_test(&self) -> u64 {
        30
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let Some(subject) = subject(case) else { return Ok(Verdict::Rejected) };
        let Subject { dag, dims, numbers, tolerance } = &subject;
        if volume(dag, dims).max(elements(dag, dims)) > MAX_VOLUME {
            case.count("too large to run");
            return Ok(Verdict::Rejected);
        }
        case.input("dag.txt", program::describe(dag, dims));
        let Some(schedule) = schedule(case, dag)? else { return Ok(Verdict::Rejected) };
        case.input("trace.txt", text(&schedule.trace));
        execute::check_trace(&schedule, dag)?;
        // Stages that are computed again and again may take longer than anybody waits.
        if iterations(&nest::lower(&schedule), dims) > MAX_ITERATIONS {
            case.count("too much is computed again");
            return Ok(Verdict::Rejected);
        }
        let launch = Launch::new(dag, dims, *numbers, &mut case.random);
        let tolerance = tolerance.as_ref().map(|it| it as &dyn Fn(DType) -> f64);
        let nest = case.random.chance(0.25);
        execute::check(case, &schedule, &[launch], Comparison { tolerance, nest })?;
        Ok(Verdict::Accepted)
    }
}

/// Returns how often statements of a nest run at some extents, guards aside.
fn iterations(nest: &Nest, dims: &[i64]) -> f64 {
    fn of(body: &[Stmt], facts: &mut Facts) -> f64 {
        let mut runs = |stmt: &Stmt| match stmt {
            Stmt::For { var, extent, body, .. } => {
                let times = extent.interval(facts).hi.max(0) as f64;
                facts.bound_var(*var, extent.clone());
                times * of(body, facts)
            }
            Stmt::If { body, .. } => of(body, facts),
            Stmt::Store { .. } | Stmt::Update { .. } => 1.0,
        };
        body.iter().map(&mut runs).sum()
    }
    of(&nest.body, &mut Facts::of_dims(dims.iter().map(|it| Interval::point(*it))))
}

fn text(trace: &[Instruction]) -> String {
    trace.iter().map(|it| format!("{it}\n")).collect()
}

/// A program: of a family whose results are exact, of the corpus, or from the grammar.
fn subject(case: &mut Case) -> Option<Subject> {
    match case.random.below(10) {
        0..=4 => {
            let drawn = case.draw(&any_case());
            case.count("a program of a family");
            let (dag, dims) = (drawn.dag, drawn.dims);
            Some(Subject { dag, dims, numbers: Numbers::Whole, tolerance: Some(|_| 0.0) })
        }
        5..=6 => {
            let text = case.pick(&PROGRAMS).clone();
            let dag = reduced(&text, &mut case.random)?;
            case.count("a program of the corpus");
            let dims = program::dims(&dag, &mut case.random);
            let tolerance = (!rounds(&dag)).then_some(near as fn(DType) -> f64);
            Some(Subject { dag, dims, numbers: Numbers::Fractions, tolerance })
        }
        _ => {
            let written = generate::program(&mut case.random);
            let dag = program::read(&written.text).ok()?.into_iter().next()?;
            // A tile may have all of a range, and the interpreters go through it.
            if dag.dims.iter().any(|it| it.range.hi > MAX_EXTENT) {
                return None;
            }
            case.count("a program from the grammar");
            let dims = program::dims(&dag, &mut case.random);
            let tolerance = program::tolerance(written.flavor, &dag);
            let numbers = Flavor::numbers(written.flavor);
            Some(Subject { dag, dims, numbers, tolerance })
        }
    }
}

fn near(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 4e-3,
        DType::Bf16 => 4e-2,
        DType::F64 => 1e-7,
        _ => 3e-4,
    }
}

/// Returns whether a program makes integers of floats, which near floats make different ones of.
fn rounds(dag: &Dag) -> bool {
    let mut found = false;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| {
            if let Expr::Cast(to, from) = it {
                found |= !to.is_float() && from.dtype(dag).is_float();
            }
        });
    }
    found
}

/// A schedule: a point of a space, random primitives, both, or a trace of other extents.
fn schedule(case: &mut Case, dag: &Dag) -> Result<Option<Schedule>, Problem> {
    let target = target(case);
    let schedule = match case.random.below(8) {
        0..=1 => {
            case.count("random primitives");
            let moves = case.draw(&any_moves(MAX_MOVES));
            return Ok(Some(scheduled(dag, &moves)));
        }
        2..=3 => {
            case.count("a point of Ansor's space");
            point(case, dag, &Space::ansor(dag, &target))
        }
        _ => {
            case.count("a point of a template");
            point(case, dag, &Space::new(dag, &target))
        }
    };
    let Some(mut schedule) = schedule else {
        case.count("a point that is refused");
        return Ok(None);
    };
    match case.random.below(6) {
        0 => {
            case.count("random primitives after a point");
            let moves = case.draw(&any_moves(6));
            move_by_move(&mut schedule, &moves, |schedule, it| {
                // Search drops refused primitives, too.
                let _ = schedule.apply(it);
            });
            Ok(Some(schedule))
        }
        1 if dag.dims.iter().all(|it| it.lower_end.is_none()) => {
            carried_over(case, dag, &schedule).map(Some)
        }
        _ => Ok(Some(schedule)),
    }
}

fn target(case: &mut Case) -> Target {
    let isa: Isa = *case.pick(&ISAS);
    let threads = *case.pick(&[1, 2, 4, 64]);
    CpuTarget { threads, ..CpuTarget::generic(isa) }.into()
}

fn point(case: &mut Case, dag: &Dag, space: &Space) -> Option<Schedule> {
    if space.sketches.is_empty() {
        return None;
    }
    let point = space.random(&mut case.random);
    Schedule::replay(dag, &space.instructions(&point)).ok()
}

/// The trace of a schedule on the same program at narrower ranges, and back.
fn carried_over(case: &mut Case, dag: &Dag, schedule: &Schedule) -> Result<Schedule, Problem> {
    case.count("a trace that is carried over");
    let half = |it: Interval| Interval { lo: it.lo, hi: it.lo.max(it.hi / 2) };
    let narrow: Vec<Interval> = dag.dims.iter().map(|it| half(it.range)).collect();
    let other = dag.specialize(&narrow);
    let repaired = |trace: &[Instruction], from: &Dag, to: &Dag| {
        repair(trace, from, to).map_err(|error| {
            Problem::wrong(format!("a trace is no trace of its own program: {error:?}"))
        })
    };
    let there = repaired(&schedule.trace, dag, &other)?.schedule;
    Ok(repaired(&there.trace, &other, dag)?.schedule)
}
