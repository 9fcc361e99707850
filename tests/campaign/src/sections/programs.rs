//! Random programs from a grammar: from text to code for every kind of device, and run at small extents.

use std::time::Duration;

use tvmtune_cuda::grid::Unplaceable;
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_space::default;

use crate::case::Case;
use crate::execute::{self, Comparison, ISAS};
use crate::generate::{self, CONSTRUCTS};
use crate::launch::{Launch, elements, volume};
use crate::program;
use crate::section::{Problem, Section, Verdict, without_names};

/// Points of computes that a launch may have: the interpreters take microseconds for each.
const MAX_VOLUME: f64 = 40_000.0;

/// The largest extent in the range of a program whose nest is interpreted.
const MAX_EXTENT: i64 = 10_000;

/// The architectures that CUDA C++ is written for.
const ARCHS: [Arch; 2] = [Arch { sm: 80, exact: false }, Arch { sm: 90, exact: true }];

/// The section.
pub(super) struct Programs;

impl Section for Programs {
    fn name(&self) -> &'static str {
        "programs"
    }

    fn about(&self) -> &'static str {
        "random programs of every construct: text, dag, schedules, code, results"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn cases_of_a_test(&self) -> u64 {
        60
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let written = generate::program(&mut case.random);
        case.input("program.rs", written.text.as_str());
        let dags = match program::read(&written.text) {
            Ok(dags) => dags,
            Err(error) => {
                let refusal = error.to_string();
                if refusal.contains("please report") {
                    return Err(Problem::wrong(refusal));
                }
                case.count(format!("refused: {}", without_names(&refusal)));
                return Ok(Verdict::Rejected);
            }
        };
        count(case, &written.text, &dags);
        for dag in &dags {
            program::check_text(dag)?;
            let tolerance = program::tolerance(written.flavor, dag);
            let tolerance = tolerance.as_ref().map(|it| it as &dyn Fn(DType) -> f64);
            let launches = launches(case, dag, written.flavor);
            on_cpus(case, dag, &launches, tolerance)?;
            on_gpus(case, dag)?;
        }
        Ok(Verdict::Accepted)
    }
}

/// Counts what the program is made of.
fn count(case: &mut Case, text: &str, dags: &[Dag]) {
    let is_large = |it: &Dag| it.computes.len() >= 3 && !it.dims.is_empty();
    if dags.iter().any(is_large) {
        case.count("three computes and a dynamic dimension");
    }
    for construct in CONSTRUCTS.iter().filter(|it| text.contains(*it)) {
        case.count(format!("`{construct}`"));
    }
}

/// Launches at a few extents, as far as the interpreters can run them.
fn launches(case: &mut Case, dag: &Dag, flavor: generate::Flavor) -> Vec<Launch> {
    let n = if dag.dims.is_empty() { 1 } else { 2 };
    let mut launches = Vec::new();
    for _ in 0..n {
        let dims = program::dims(dag, &mut case.random);
        if volume(dag, &dims).max(elements(dag, &dims)) > MAX_VOLUME {
            case.count("too large to run");
            continue;
        }
        case.input("dag.txt", program::describe(dag, &dims));
        launches.push(Launch::new(dag, &dims, flavor.numbers(), &mut case.random));
    }
    launches
}

/// The default schedule for each instruction set.
fn on_cpus(
    case: &mut Case,
    dag: &Dag,
    launches: &[Launch],
    tolerance: Option<&dyn Fn(DType) -> f64>,
) -> Result<(), Problem> {
    let isa = *case.pick(&ISAS);
    let threads = *case.pick(&[1, 2, 8, 64]);
    let target = CpuTarget { threads, ..CpuTarget::generic(isa) };
    let schedule = default::schedule(dag, &Target::Cpu(target));
    execute::check_trace(&schedule, dag)?;
    // The interpreter of nests tries every iteration of a loop, also behind the last element.
    let nest = case.random.chance(0.2) && dag.dims.iter().all(|it| it.range.hi <= MAX_EXTENT);
    execute::check(case, &schedule, launches, Comparison { tolerance, nest })?;
    let text = tvmtune_cpu::rust::print(&tvmtune_schedule::nest::lower(&schedule));
    match syn::parse_file(&text) {
        Ok(_) => Ok(()),
        Err(error) => Err(Problem::wrong(format!("portable Rust is no Rust: {error}\n{text}"))),
    }
}

/// CUDA C++ of the default schedule for an architecture.
fn on_gpus(case: &mut Case, dag: &Dag) -> Result<(), Problem> {
    let target = Target::Gpu(GpuTarget::generic(*case.pick(&ARCHS)));
    let schedule = default::schedule(dag, &target);
    execute::check_trace(&schedule, dag)?;
    match tvmtune_cuda::generate(&schedule) {
        Ok(generated) if generated.unit.source.is_empty() => {
            Err(Problem::wrong("CUDA C++ without text"))
        }
        Ok(_) => {
            case.count("CUDA C++");
            Ok(())
        }
        Err(error) => {
            let error: Unplaceable = error;
            case.count(format!("no CUDA C++: {error}"));
            Ok(())
        }
    }
}
