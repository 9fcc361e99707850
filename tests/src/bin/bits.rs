//! Counts the random programs whose schedules have the bits of the definition
//! (`tvmtune_ir::interp::run_in_order`), and those that have the same bits on AVX2 and on AVX-512.
//!
//! `bits 1000` draws so many programs, 300 without it, and takes their default schedules. `--fixed` fixes
//! their numerics, `--orders` by orders that are drawn as if someone had written them, `--points 5` takes so many random schedules beside, and `--show` prints what differs.
//! Vector code is interpreted, so any machine does.

use std::cell::RefCell;
use std::collections::BTreeMap;

use clap::Parser;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{WrittenOrder, print};
use tvmtune_ir::interp::{Array, run_in_order};
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::arbitrary::{Case, any_case, any_order, runner};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_space::default;
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

fn main() {
    let options = Options::parse();
    let counts: RefCell<BTreeMap<String, Counts>> = RefCell::default();
    let count = |(mut case, order): (Case, WrittenOrder)| {
        if case.dag.without_fixed_order().is_some() && (options.fixed || options.orders) {
            return Ok(());
        }
        if options.orders {
            case.dag.fix_order(order);
        } else if options.fixed {
            case.dag.fix_numerics();
        }
        let (params, scalars) = (params(&case), case.scalars());
        let expected = run_in_order(&case.dag, &case.dims, &params, &scalars);
        let like: Vec<Array> =
            expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
        for n in 0..=options.points {
            let schedules = ISAS.map(|isa| schedule(&case, isa, n));
            let results = |(isa, schedule): (Isa, &Schedule)| {
                let kernel = vector::lower(&nest::lower_for_lanes(schedule), isa).ok()?;
                let got =
                    tvmtune_cpu::interp::run(&kernel, &case.dims, &params, &scalars, &like).ok()?;
                Some(bits(&got))
            };
            let [Some(wide), Some(narrow)] =
                [(ISAS[0], &schedules[0]), (ISAS[1], &schedules[1])].map(results)
            else {
                continue;
            };
            let in_order = [wide == bits(&expected), narrow == bits(&expected)];
            if options.show && in_order != [true; 2] {
                show(&case, &schedules, in_order);
            }
            let mut counts = counts.borrow_mut();
            for name in [format!("{:?}", case.family), "all".to_owned()] {
                let counts = counts.entry(name).or_default();
                counts.all += 1;
                for (n, is_in_order) in counts.in_order.iter_mut().zip(in_order) {
                    *n += usize::from(is_in_order);
                }
                counts.same += usize::from(wide == narrow);
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

/// Prints a program with its schedules, and whether each has the bits of the definition.
fn show(case: &Case, schedules: &[Schedule; 2], in_order: [bool; 2]) {
    println!("{:?} at {:?}\n{}", case.family, case.dims, print::canonical(&case.dag));
    for ((isa, schedule), in_order) in ISAS.into_iter().zip(schedules).zip(in_order) {
        println!("{isa:?}: {in_order}");
        schedule.trace.iter().for_each(|line| println!("    {line}"));
    }
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

fn bits(results: &[Array]) -> Vec<Vec<u8>> {
    results.iter().map(Array::bytes).collect()
}
