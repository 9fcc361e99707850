//! Counts the random programs whose schedules have the bits of the definition
//! (`tvmtune_ir::interp::run_in_order`), and those that have the same bits on AVX2 and on AVX-512.
//!
//! `bits 1000` draws so many programs, 300 without it, and takes their default schedules. `--fixed`
//! fixes their numerics, `--orders` by orders that are drawn as if someone had written them,
//! `--points 5` takes so many random schedules beside, and `--show` prints what differs.
//!
//! Vector code is interpreted, so any machine does. Of what is interpreted, `--save FILE` writes the
//! machine code of both instruction sets, with arguments and results; `--run FILE` executes what a
//! machine can of it, which may be another one. `--portable` compiles portable code of the schedules
//! for AVX2 and compares its results.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tvmtune_cpu::interp::{RaceCheck, execute, results_of, table};
use tvmtune_cpu::{rust, vector};
use tvmtune_ir::dag::{WrittenOrder, print};
use tvmtune_ir::interp::{Array, run_in_order};
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::arbitrary::{Case, any_case, any_order, runner};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_space::default;
use tvmtune_tests::saved_code::{self, SavedCode};
use tvmtune_tests::{bits, portable};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

/// See the module.
#[derive(Parser)]
struct Options {
    /// Programs.
    #[arg(default_value_t = 300)]
    programs: u32,
    /// Fix the numerics of the programs.
    #[arg(long)]
    fixed: bool,
    /// Fix the numerics of the programs by orders that are drawn.
    #[arg(long)]
    orders: bool,
    /// Random schedules of each program, on each instruction set.
    #[arg(long, default_value_t = 0)]
    points: usize,
    /// Print what differs.
    #[arg(long)]
    show: bool,
    /// Write machine code with arguments and results to this file.
    #[arg(long)]
    save: Option<PathBuf>,
    /// Execute the machine code of such a file, and nothing else.
    #[arg(long, conflicts_with_all = ["programs", "save", "portable"])]
    run: Option<PathBuf>,
    /// Compile portable code, in crates in this folder, and compare its results.
    #[arg(long, value_name = "DIR")]
    portable: Option<PathBuf>,
}

/// The schedules of a family's programs: all, those with the bits of the definition on each instruction
/// set, and those with the same bits on both.
#[derive(Default)]
struct Counts {
    all: usize,
    in_order: [usize; 2],
    same: usize,
}

const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// The number of functions in each crate of portable code.
const FUNCTIONS: usize = 1000;

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(path) = &options.run {
        return run_saved(path);
    }
    count(&options);
    ExitCode::SUCCESS
}

/// Draws programs and schedules, and prints how many have the bits of the definition.
fn count(options: &Options) {
    let counts: RefCell<BTreeMap<String, Counts>> = RefCell::default();
    let create = |it: &PathBuf| BufWriter::new(File::create(it).expect("a file can be created"));
    let saved = RefCell::new(options.save.as_ref().map(create));
    let launches = RefCell::new(Vec::new());
    let count = |(mut case, order): (Case, WrittenOrder)| {
        if case.dag.without_fixed_order().is_some() && (options.fixed || options.orders) {
            return Ok(());
        }
        if options.orders {
            case.dag.fix_order(order);
        } else if options.fixed {
            case.dag.fix_numerics();
        }
        let launch = Launch::new(case);
        for n in 0..=options.points {
            let schedules = ISAS.map(|isa| schedule(&launch.case, isa, n));
            let Some(results) = launch.interpret(&schedules, &mut saved.borrow_mut()) else {
                continue;
            };
            let expected = bits(&launch.expected);
            let in_order = results.each_ref().map(|it| *it == expected);
            if options.show && in_order != [true; 2] {
                launch.show(&schedules, in_order);
            }
            if options.portable.is_some() {
                launches.borrow_mut().push(launch.portable(&schedules[1]));
            }
            let mut counts = counts.borrow_mut();
            for name in [format!("{:?}", launch.case.family), "all".to_owned()] {
                let counts = counts.entry(name).or_default();
                counts.all += 1;
                for (n, is_in_order) in counts.in_order.iter_mut().zip(in_order) {
                    *n += usize::from(is_in_order);
                }
                counts.same += usize::from(results[0] == results[1]);
            }
        }
        Ok(())
    };
    runner(options.programs).run(&(any_case(), any_order()), count).expect("nothing is asserted");
    println!("| family | schedules | AVX-512 in order | AVX2 in order | the same on both |");
    println!("|---|---|---|---|---|");
    for (family, Counts { all, in_order: [wide, narrow], same }) in counts.borrow().iter() {
        println!("| {family} | {all} | {wide} | {narrow} | {same} |");
    }
    if let Some(folder) = &options.portable {
        run_portable(folder, &launches.borrow(), options.show);
    }
}

/// A program with its arguments and its results by definition.
struct Launch {
    case: Case,
    params: Vec<Array>,
    expected: Vec<Array>,
}

impl Launch {
    fn new(case: Case) -> Self {
        let params = params(&case);
        let expected = run_in_order(&case.dag, &case.dims, &params, &case.scalars());
        Self { case, params, expected }
    }

    /// The bits of the results by both instruction sets, if there is code for both.
    fn interpret(
        &self,
        schedules: &[Schedule; 2],
        saved: &mut Option<BufWriter<File>>,
    ) -> Option<[Vec<Vec<u8>>; 2]> {
        let Self { case, params, expected } = self;
        let lower = |n: usize| vector::lower(&nest::lower_for_lanes(&schedules[n]), ISAS[n]).ok();
        let mut of_both = [Vec::new(), Vec::new()];
        for (n, kernel) in [lower(0)?, lower(1)?].iter().enumerate() {
            let before = table(kernel, &case.dims, params, &case.scalars(), expected);
            let mut cells = before.clone();
            let scratch = kernel.scratch_bytes.eval_dims(&case.dims).max(0) as usize;
            execute(kernel, &mut cells, scratch, RaceCheck::On).ok()?;
            let results = results_of(kernel, &cells, params.len(), expected);
            if let Some(file) = saved {
                let label = self.label(&schedules[n]);
                let results = (params.len(), results.as_slice());
                let code = SavedCode::new(label, kernel, &case.dims, &before, results);
                code.write(file).expect("the file can be written");
            }
            of_both[n] = bits(&results);
        }
        Some(of_both)
    }

    fn portable(&self, schedule: &Schedule) -> portable::Launch {
        let Self { case, params, expected } = self;
        portable::Launch::new(schedule, (&case.dims, params, &case.scalars()), expected.clone())
    }

    /// Returns the program with its extents, and the schedule.
    fn label(&self, schedule: &Schedule) -> String {
        let Case { family, dims, dag, .. } = &self.case;
        let trace: String = schedule.trace.iter().map(|it| format!("    {it}\n")).collect();
        format!("{family:?} at {dims:?}\n{}\n{trace}", print::canonical(dag))
    }

    /// Prints the program with its schedules, and whether each has the bits of the definition.
    fn show(&self, schedules: &[Schedule; 2], in_order: [bool; 2]) {
        for ((isa, schedule), in_order) in ISAS.into_iter().zip(schedules).zip(in_order) {
            println!("{isa:?}: {in_order}\n{}", self.label(schedule));
        }
    }
}

/// Executes saved machine code; fails where a result is wrong.
fn run_saved(path: &Path) -> ExitCode {
    let counts = saved_code::run(path).expect("a file of `--save`");
    println!("{counts:?}");
    if counts.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compiles and runs portable code of all launches; prints how many have the bits of the definition.
fn run_portable(folder: &Path, launches: &[portable::Launch], show: bool) {
    let mut in_order = 0;
    for (n, launches) in launches.chunks(FUNCTIONS).enumerate() {
        let texts: Vec<String> = launches.iter().map(|it| rust::print(&it.nest)).collect();
        let results = portable::run(folder, &format!("part_{n}"), launches, &texts);
        for (launch, results) in launches.iter().zip(results) {
            match results {
                Some(results) if bits(&results) == bits(&launch.expected) => in_order += 1,
                _ if show => println!("portable code differs: {}", launch.label),
                _ => {}
            }
        }
    }
    println!("portable code: {in_order} of {} in order", launches.len());
}

/// The default schedule of a program, or the random one of that number.
fn schedule(case: &Case, isa: Isa, n: usize) -> Schedule {
    let target = Target::generic(isa);
    if n == 0 {
        return default::schedule(&case.dag, &target);
    }
    let space = Space::new(&case.dag, &target);
    let mut random = Random::new(case.seed ^ n as u64);
    let trace = space.instructions(&space.random(&mut random));
    Schedule::replay(&case.dag, &trace).unwrap_or_else(|_| Schedule::new(&case.dag))
}

/// Random numbers for each parameter of floats.
fn params(case: &Case) -> Vec<Array> {
    let draw = |(param, id)| {
        let param: Array = param;
        let tensor = case.dag.tensor(id);
        match tensor.dtype.is_float() {
            true => Array::random(tensor.dtype, &param.shape, case.seed),
            false => param,
        }
    };
    case.params().into_iter().zip(case.dag.params()).map(draw).collect()
}
