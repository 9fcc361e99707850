//! Counts the random programs whose default schedules have the bits of the definition in order
//! (`tvmtune_ir::interp::run_in_order`), and those that have the same bits on AVX2 and on AVX-512.
//!
//! `bits 1000` draws so many programs, 300 without it. Vector code is interpreted, so any machine does.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;

use tvmtune_cpu::vector;
use tvmtune_ir::interp::{Array, run_in_order};
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::arbitrary::{Case, any_case, runner};
use tvmtune_schedule::nest;
use tvmtune_space::default;

/// The programs of a family: all, those with the bits of the definition on each instruction set, and those
/// with the same bits on both.
#[derive(Default)]
struct Counts {
    all: usize,
    in_order: [usize; 2],
    same: usize,
}

fn main() {
    let n = env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(300);
    let counts: RefCell<BTreeMap<String, Counts>> = RefCell::default();
    let count = |case: Case| {
        if let Some([wide, narrow]) = results(&case) {
            let (params, scalars) = (params(&case), case.scalars());
            let expected = bits(&run_in_order(&case.dag, &case.dims, &params, &scalars));
            let mut counts = counts.borrow_mut();
            for name in [format!("{:?}", case.family), "all".to_owned()] {
                let counts = counts.entry(name).or_default();
                counts.all += 1;
                for (n, got) in counts.in_order.iter_mut().zip([&wide, &narrow]) {
                    *n += usize::from(*got == expected);
                }
                counts.same += usize::from(wide == narrow);
            }
        }
        Ok(())
    };
    runner(n).run(&any_case(), count).expect("nothing is asserted");
    println!("| family | programs | AVX-512 in order | AVX2 in order | the same on both |");
    println!("|---|---|---|---|---|");
    for (family, Counts { all, in_order: [wide, narrow], same }) in counts.borrow().iter() {
        println!("| {family} | {all} | {wide} | {narrow} | {same} |");
    }
}

/// The bits of the results by the default schedule on each instruction set, interpreted; `None` where there
/// is no machine code.
fn results(case: &Case) -> Option<[Vec<Vec<u8>>; 2]> {
    let of_isa = |isa: Isa| {
        let schedule = default::schedule(&case.dag, &Target::generic(isa));
        let kernel = vector::lower(&nest::lower(&schedule), isa).ok()?;
        let (params, scalars) = (params(case), case.scalars());
        let like = run_in_order(&case.dag, &case.dims, &params, &scalars);
        let like: Vec<Array> = like.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
        let got = tvmtune_cpu::interp::run(&kernel, &case.dims, &params, &scalars, &like).ok()?;
        Some(bits(&got))
    };
    Some([of_isa(Isa::Avx512)?, of_isa(Isa::Avx2)?])
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
