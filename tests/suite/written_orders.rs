//! Orders of reductions that an author wrote: every schedule of a program has the bits of its definition, in
//! vector code of each width and in machine code, in every bucket.

use proptest::prelude::*;
use tvmtune_ir::dag::{Dag, WrittenOrder, print};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Target;
use tvmtune_ir::{dsl, workload as identity};
use tvmtune_schedule::Schedule;
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, any_order, runner, scheduled};
use tvmtune_space::default;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::fixed_numerics::{ISAS, Launch};

const ORDERS: [&str; 6] = [
    "sequence",
    "lanes(8)",
    "lanes(128)",
    "blocks(16)",
    "blocks(16, lanes(32))",
    "blocks(37, lanes(8))",
];

/// Rows, products of rows, columns, extremes, and a sum of everything.
const FUNCTION: &str = "fn f(x: Tensor<f32, M, D>, w: Weight<f32, 40, D>)
    -> (Tensor<f32, M, 40>, Tensor<f32, D>, Tensor<f32, M>, Tensor<f32, 1>) {
    let product = compute(|i, j| sum(0..D, |d| x[[i, d]] * w[[j, d]]));
    let columns = compute(|d| sum(0..M, |i| x[[i, d]]));
    let least = compute(|i| min(0..D, |d| x[[i, d]]));
    (product, columns, least, compute(|o| sum((0..M, 0..D), |i, d| exp(x[[i, d]]))))
}";

fn dag(order: &str) -> Dag {
    let options = format!("dims(M = 3, D = 1..=150), order = \"{order}\"");
    dsl::program(&format!("#[autotune({options})] {FUNCTION}")).unwrap()
}

/// The default schedule, and random ones of both spaces.
fn schedules(dag: &Dag, target: &Target, seed: u64) -> Vec<Schedule> {
    let mut random = Random::new(seed);
    let mut all = vec![Schedule::new(dag), default::schedule(dag, target)];
    for space in [Space::new(dag, target), Space::ansor(dag, target)] {
        let trace = space.instructions(&space.random(&mut random));
        all.extend(Schedule::replay(dag, &trace));
    }
    all
}

#[test]
fn every_written_order_has_the_bits_of_the_definition() {
    for order in ORDERS {
        let dag = dag(order);
        for extent in [1, 7, 8, 9, 15, 16, 17, 37, 38, 127, 150] {
            let mut launches = [1, 2].map(|seed| Launch::new(&dag, &[extent], seed));
            launches[1].make_hostile(&dag, extent as u64);
            for (lo, hi) in [(1, 150), (extent, extent)] {
                let dag = dag.specialize(&[Interval { lo, hi }]);
                for isa in ISAS {
                    for schedule in schedules(&dag, &Target::generic(isa), extent as u64) {
                        for launch in &launches {
                            let found = launch.has_bits(&schedule, isa);
                            let shown = (order, isa, extent, lo..=hi, &schedule.trace);
                            assert_eq!(found, Some(true), "{shown:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn random_programs_have_the_bits_of_their_written_order() {
    let check = |(case, order, moves): (Case, WrittenOrder, Vec<Move>)| {
        let mut dag = case.dag.clone();
        if dag.without_fixed_order().is_some() {
            return Ok(());
        }
        dag.fix_order(order);
        let launch = Launch::new(&dag, &case.dims, case.seed);
        for isa in ISAS {
            let mut all = schedules(&dag, &Target::generic(isa), case.seed);
            all.push(scheduled(&dag, &moves));
            for schedule in all {
                let found = launch.has_bits(&schedule, isa);
                let shown = (isa, &case.dims, &schedule.trace);
                prop_assert!(found != Some(false), "{}{shown:?}", print::canonical(&dag));
            }
        }
        Ok(())
    };
    runner(150).run(&(any_case(), any_order(), any_moves(15)), check).unwrap();
}

#[test]
fn each_order_is_a_program_of_its_own() {
    let mut ids: Vec<_> = ORDERS.iter().map(|it| identity::id(&dag(it))).collect();
    let mut fixed = dag("sequence");
    fixed.written_order = None;
    fixed.fix_numerics();
    ids.push(identity::id(&fixed));
    let n_ids = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), n_ids);
    for order in ORDERS {
        let parsed: Dag = print::canonical(&dag(order)).parse().unwrap();
        assert_eq!(parsed.orders, dag(order).orders);
        let narrow = dag(order).specialize(&[Interval { lo: 1, hi: 1 }]);
        assert_eq!(narrow.orders, dag(order).orders);
    }
}
