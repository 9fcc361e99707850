//! A trace gives the same schedule again, also from its text.

use proptest::prelude::*;
use tvmtune_schedule::arbitrary::{any_case, any_moves, config, scheduled};
use tvmtune_schedule::{Instruction, Schedule, nest};

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn a_trace_replays_exactly_from_its_text(
        case in any_case(),
        moves in any_moves(15),
    ) {
        let schedule = scheduled(&case.dag, &moves);
        let lines: Vec<String> = schedule.trace.iter().map(Instruction::to_string).collect();
        let trace: Vec<Instruction> = lines.iter().map(|it| it.parse().unwrap()).collect();
        let replayed = Schedule::replay(&case.dag, &trace).unwrap();
        prop_assert_eq!(&replayed, &schedule);
        prop_assert_eq!(nest::lower(&replayed), nest::lower(&schedule));
    }
}
