//! Schedules where they were not made: records read back, traces on other extents and other programs, and any trace as a point of a sketch.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tvmtune_ir::dag::{Dag, print, verify};
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Isa, Target};
use tvmtune_ir::workload;
use tvmtune_plan::database::{Database, Store, StoreKind};
use tvmtune_plan::record::Record;
use tvmtune_schedule::arbitrary::{
    Case, Family, Move, any_case, any_moves, dag, runner, scheduled,
};
use tvmtune_schedule::{FactorPolicy, Instruction, Schedule, nest, repair_by};
use tvmtune_space::sketch::{Sketch, sketches};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;
use tvmtune_tuner::transfer::TransferSources;

const POLICIES: [FactorPolicy; 4] =
    [FactorPolicy::KeepInner, FactorPolicy::Snap, FactorPolicy::Scale, FactorPolicy::Shrink];

/// Folders of records that ship with the project.
fn shipped() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    ["kernels/tvmtune", "examples/minilm/tvmtune"].map(|it| root.join(it))
}

/// Every record that ships with the project, with its program.
fn records() -> Vec<(Record, Dag)> {
    let entries = |dir: PathBuf| fs::read_dir(dir).unwrap().map(|it| it.unwrap().path());
    let files = shipped().into_iter().flat_map(entries).flat_map(entries);
    let mut files: Vec<PathBuf> =
        files.filter(|it| it.extension().is_some_and(|it| it == "toml")).collect();
    files.sort();
    let read = |path: &PathBuf| {
        let record = Record::from_toml(&fs::read_to_string(path).unwrap()).unwrap();
        let dag = record.dag.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (record, dag)
    };
    files.iter().map(read).collect()
}

fn parsed(trace: &[String]) -> Vec<Instruction> {
    trace.iter().map(|it| it.parse().unwrap()).collect()
}

#[test]
fn the_program_of_a_record_reads_back() {
    let records = records();
    assert!(records.len() > 30);
    for (record, dag) in records {
        assert_eq!(print::canonical(&dag), record.dag);
        assert_eq!(workload::id(&dag), record.workload);
        assert_eq!(verify(&dag), []);
    }
}

#[test]
fn any_program_reads_back() {
    let mut runner = runner(2000);
    let check = |case: Case| {
        let text = print::canonical(&case.dag);
        let dag: Dag = text.parse().map_err(|it| TestCaseError::fail(format!("{it}:\n{text}")))?;
        prop_assert_eq!(print::canonical(&dag), text);
        let (params, scalars) = (case.params(), case.scalars());
        let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
        prop_assert!(tvmtune_ir::interp::run(&dag, &case.dims, &params, &scalars) == expected);
        Ok(())
    };
    runner.run(&any_case(), check).unwrap();
}

#[test]
fn a_shipped_schedule_stays_as_it_is_where_it_was_made() {
    for (record, dag) in records() {
        for bucket in &record.buckets {
            let dag = dag.specialize(&bucket.dims);
            for trace in bucket.schedules.iter().map(|it| parsed(&it.trace)) {
                for policy in POLICIES {
                    let repaired = repair_by(policy, &trace, &dag, &dag).unwrap();
                    assert_eq!((&repaired.schedule.trace, repaired.distance), (&trace, 0.0));
                }
            }
        }
    }
}

#[test]
fn points_of_shipped_programs_are_encoded_by_their_traces() {
    let targets: [Target; 3] = [
        CpuTarget::generic(Isa::Avx512).into(),
        CpuTarget::generic(Isa::Avx2).into(),
        GpuTarget::generic(Arch { sm: 90, exact: true }).into(),
    ];
    let mut random = Random::new(7);
    for (_, dag) in records() {
        for target in &targets {
            let space = Space::new(&dag, target);
            for (n, default) in space.defaults().into_iter().enumerate() {
                let points = (0..4).map(|_| space.random_of(n as u16, &mut random));
                for point in points.chain([default]) {
                    let trace = space.instructions(&point);
                    let located = space.sketch(&point).encode(&trace).unwrap();
                    assert!(located.is_exact, "{}: {trace:?}", space.sketch(&point).name);
                }
            }
        }
    }
}

/// The schedule computes what the program says.
fn check_results(
    case: &Case,
    schedule: &Schedule,
    from: &[Instruction],
) -> Result<(), TestCaseError> {
    let nest = nest::lower(schedule);
    let text = |trace: &[Instruction]| trace.iter().map(|it| format!("{it}\n")).collect::<String>();
    let shown = || format!("{}\nof\n{}\n{nest}", text(&schedule.trace), text(from));
    let (params, scalars) = (case.params(), case.scalars());
    let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    match tvmtune_schedule::interp::run(&nest, &case.dims, &params, &scalars) {
        Ok(results) => prop_assert!(results == expected, "wrong result:\n{}", shown()),
        Err(fault) => prop_assert!(false, "{fault}:\n{}", shown()),
    }
    Ok(())
}

/// Two programs of one family, with some numbers in common: often the same but for extents.
fn any_pair() -> impl Strategy<Value = (Dag, Case)> {
    let numbers = || proptest::collection::vec(any::<u32>(), 24);
    let changed = proptest::collection::vec(proptest::bool::weighted(0.3), 24);
    (proptest::sample::select(&Family::ALL[..]), numbers(), numbers(), changed, any::<u64>())
        .prop_map(|(family, first, other, changed, seed)| {
            let mix = |(n, it): (usize, &u32)| if changed[n] { other[n] } else { *it };
            let second: Vec<u32> = first.iter().enumerate().map(mix).collect();
            let (target, dims) = dag(family, &second);
            (dag(family, &first).0, Case { family, dag: target, dims, seed })
        })
}

#[test]
fn any_trace_fits_a_program_with_other_extents() {
    let mut runner = runner(2000);
    let policy = proptest::sample::select(&POLICIES[..]);
    let check = |((original, case), moves, policy): ((Dag, Case), Vec<Move>, FactorPolicy)| {
        let trace = scheduled(&original, &moves).trace;
        let repaired = repair_by(policy, &trace, &original, &case.dag).unwrap();
        let replayed = Schedule::replay(&case.dag, &repaired.schedule.trace);
        prop_assert_eq!(replayed, Ok(repaired.schedule.clone()));
        check_results(&case, &repaired.schedule, &trace)
    };
    runner.run(&(any_pair(), any_moves(15), policy), check).unwrap();
}

#[test]
fn any_trace_fits_any_other_program() {
    let mut runner = runner(1000);
    let check = |(original, case, moves): (Case, Case, Vec<Move>)| {
        let trace = scheduled(&original.dag, &moves).trace;
        let repaired = repair_by(FactorPolicy::Snap, &trace, &original.dag, &case.dag).unwrap();
        check_results(&case, &repaired.schedule, &trace)
    };
    runner.run(&(any_case(), any_case(), any_moves(15)), check).unwrap();
}

#[test]
fn most_of_a_trace_fits_the_same_program_with_other_extents() {
    let original =
        records().into_iter().find(|it| it.0.name.as_str() == "resnet_3x3_64_56").unwrap();
    let others = records().into_iter().filter(|it| it.0.name.as_str().contains("3x3_"));
    for (_, other) in others {
        let trace = parsed(&original.0.buckets[0].schedules[0].trace);
        for policy in FactorPolicy::TRANSFER {
            let repaired = repair_by(policy, &trace, &original.1, &other).unwrap();
            assert_eq!(repaired.schedule.trace.len(), trace.len(), "{policy}");
        }
    }
}

#[test]
fn any_trace_makes_a_sketch_of_which_it_is_a_point() {
    let mut runner = runner(500);
    let target: Target = CpuTarget::generic(Isa::Avx512).into();
    let check = |(case, moves, salt): (Case, Vec<Move>, u64)| {
        let schedule = scheduled(&case.dag, &moves);
        let mut space = Space { sketches: sketches(&case.dag, &target), is_analytic: true };
        let point = space.import_trace(&case.dag, &target, &schedule.trace, "adopted");
        prop_assert_eq!(space.instructions(&point), schedule.trace.clone());
        // One step away the same primitives apply; further away too, as a rule.
        let sketch: &Sketch = space.sketch(&point);
        let steps = (0..sketch.decisions.len()).map(|n| {
            let mut choices = point.choices.clone();
            choices[n] = (salt % sketch.decisions[n].options.len() as u64) as u16;
            choices
        });
        for choices in steps {
            let near = Schedule::replay(&case.dag, &sketch.instructions(&choices));
            prop_assert!(near.is_ok(), "{near:?}");
            check_results(&case, &near.unwrap(), &schedule.trace)?;
        }
        let mutant = space.mutate(&point, &mut Random::new(salt));
        prop_assert_eq!(mutant.sketch, point.sketch);
        Ok(())
    };
    runner.run(&(any_case(), any_moves(15), any::<u64>()), check).unwrap();
}

#[test]
fn a_database_is_a_pool_of_transfer_sources_for_its_neighbors() {
    let store = |dir| Store { kind: StoreKind::Overlay, dir };
    let database = Database::new(shipped().map(store).to_vec(), None);
    let target: Target = CpuTarget::generic(Isa::Avx512).into();
    let sources = TransferSources::from_database(&database, &target);
    // Those for GPUs were made where there was none.
    let n_measured = |it: &(Record, Dag)| {
        let schedules = it.0.buckets.iter().flat_map(|it| &it.schedules);
        schedules.filter(|it| it.median_ns().is_some()).count()
    };
    assert_eq!(sources.n_sources(), records().iter().map(n_measured).sum::<usize>());
    let gpu = GpuTarget::generic(Arch { sm: 90, exact: true }).into();
    assert_eq!(TransferSources::from_database(&database, &gpu).n_sources(), 0);
    for (record, dag) in records() {
        let ranges: Vec<_> = dag.dims.iter().map(|it| it.range).collect();
        let found = sources.candidates(&dag.specialize(&ranges), &target, 8);
        // A record that ships has the best schedule of each range, and some of them are alike.
        assert!((3..=8).contains(&found.len()), "{}: {}", record.name, found.len());
    }
}
