//! Tightened loops: those that masks end, and the effect of masked values.

use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::Array;
use tvmtune_schedule::{
    AxisId, AxisRole, ErrorKind, LoopKind, Schedule, ScheduleError, StageId, nest,
};

use super::examples::EXAMPLES;
use super::stage;

/// A causal attention whose reductions share a loop over blocks of that many keys.
fn causal(block: u64) -> (Dag, Schedule, StageId, AxisId) {
    let example = EXAMPLES.iter().find(|it| it.text.contains("fn causal")).unwrap();
    let dag = example.dag();
    let mut schedule = Schedule::new(&dag);
    let [s, m, e, l, o, out] = ["s", "m", "e", "l", "o", "out"].map(|it| stage(&schedule, it));
    let scores = stage(&schedule, "s_sum");
    let row = schedule.stage(out).order[0];
    schedule.compute_at(o, out, row).unwrap();
    let blocks = example.blocks(&mut schedule, o, block);
    schedule.online_reduction(l, o, blocks).unwrap();
    schedule.compute_at(e, o, blocks).unwrap();
    schedule.online_reduction(m, o, blocks).unwrap();
    schedule.compute_at(s, o, blocks).unwrap();
    schedule.compute_at(scores, o, blocks).unwrap();
    (dag, schedule, o, blocks)
}

#[test]
fn loops_are_tightened_where_masks_end_them() {
    let why = |edit: &dyn Fn(&mut Schedule, StageId, AxisId) -> Result<(), ScheduleError>| {
        let (_, mut schedule, host, blocks) = causal(4);
        edit(&mut schedule, host, blocks).map_err(|it| it.kind)
    };
    assert_eq!(why(&|it, host, blocks| it.tighten_bounds(host, blocks)), Ok(()));
    let again = why(&|it, host, blocks| {
        it.tighten_bounds(host, blocks).and_then(|()| it.tighten_bounds(host, blocks))
    });
    assert_eq!(again, Err(ErrorKind::AlreadyScheduled));
    let spatial = why(&|it, host, _| it.tighten_bounds(host, AxisId(0)));
    assert_eq!(spatial, Err(ErrorKind::WrongRole(AxisRole::Spatial)));
    // The sum over features of a score is masked where it is read, not where it is made.
    let unmasked = why(&|it, _, _| it.tighten_bounds(stage(it, "s_sum"), AxisId(2)));
    assert_eq!(unmasked, Err(ErrorKind::NotMasked));
    // Lanes, and kinds of a tightened loop.
    let lanes = why(&|it, host, _| {
        let last = *it.stage(host).order.last().unwrap();
        it.annotate(host, last, LoopKind::Vectorized)?;
        it.tighten_bounds(host, last)
    });
    assert!(matches!(lanes, Err(ErrorKind::NotSerial(_) | ErrorKind::WrongRole(_))), "{lanes:?}");
    let thread = why(&|it, host, blocks| {
        it.tighten_bounds(host, blocks)?;
        it.annotate(host, blocks, LoopKind::Tensorized)
    });
    assert_eq!(thread, Err(ErrorKind::NotSerial(LoopKind::Tensorized)));
    let pipelined = why(&|it, host, blocks| {
        it.tighten_bounds(host, blocks)?;
        it.annotate(host, blocks, LoopKind::Pipelined(2))
    });
    assert_eq!(pipelined, Ok(()));
    let partly = EXAMPLES.iter().find(|it| it.text.contains("fn partly_masked")).unwrap();
    let mut schedule = partly.scheduled(&partly.dag(), &[1; 12]);
    let host = stage(&schedule, partly.host);
    let blocks = schedule.stage(host).order[0];
    assert_eq!(
        schedule.tighten_bounds(host, blocks).map_err(|it| it.kind),
        Err(ErrorKind::NotMasked)
    );
}

/// Blocks that a mask hides as a whole are not evaluated: an infinity there has no effect.
#[test]
fn values_hidden_from_all_rows_of_a_tile_have_no_effect() {
    let (dag, mut schedule, host, blocks) = causal(1);
    let mut params: Vec<Array> =
        (1..).map(|it| Array::random(DType::F32, &[9, 5], it)).take(3).collect();
    let expected = tvmtune_ir::interp::run(&dag, &[9], &params, &[]);
    for d in 0..5 {
        params[2].set(8 * 5 + d, Number::Float(f64::INFINITY));
    }
    let run = |schedule: &Schedule| {
        tvmtune_schedule::interp::run(&nest::lower(schedule), &[9], &params, &[])
            .unwrap()
            .swap_remove(0)
    };
    let rows =
        |array: &Array| -> Vec<f64> { (0..8 * 5).map(|it| array.get(it).to_f64()).collect() };
    assert!(rows(&run(&schedule)).iter().all(|it| it.is_nan()), "0 times infinity");
    schedule.tighten_bounds(host, blocks).unwrap();
    let error = |(a, b): (f64, f64)| (a - b).abs();
    let errors = rows(&run(&schedule)).into_iter().zip(rows(&expected[0])).map(error);
    assert!(errors.fold(0.0, f64::max) < 1e-5);
}
