//! Programs that the campaign found code to be wrong for, at the extents where it was.

use tvmtune_campaign::case::Case;
use tvmtune_campaign::execute::{Comparison, ISAS, check};
use tvmtune_campaign::launch::{Launch, Numbers};
use tvmtune_campaign::program;
use tvmtune_ir::dag::DType;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_space::default;

/// Programs, with the extents of a launch.
const FOUND: &[(&str, &[i64])] = &[
    // The remainder of the index was that of the row in its edge tile, which may start anywhere.
    (
        "#[autotune(dims(M = 1..=17))]
         fn rows_by_their_remainder(x: Tensor<i32, M, M, 4>) -> Tensor<f32, M, M, 4> {
             compute(|i, j, k| x[[j, j, j % 4]] as f32)
         }",
        &[7],
    ),
    // With the lanes of no row, an element behind the end was read: `j < i` holds, `i < M` does not.
    (
        "#[autotune(dims(M = 1..=33))]
         fn elements_behind_the_last(x: Tensor<f32, M>) -> Tensor<f32, M> {
             compute(|i| min(0..i, |j| x[[j + 1]]))
         }",
        &[32],
    ),
];

#[test]
fn programs_that_were_wrong_are_right() {
    for (text, dims) in FOUND {
        let dag = program::read(text).unwrap().remove(0);
        for isa in ISAS {
            for threads in [1, 8] {
                let mut case = Case::new("regressions", 1, 0, None);
                let target = CpuTarget { threads, ..CpuTarget::generic(isa) };
                let schedule = default::schedule(&dag, &Target::Cpu(target));
                let launch = Launch::new(&dag, dims, Numbers::Whole, &mut case.random);
                let exact = Comparison { tolerance: Some(&|_: DType| 0.0), nest: true };
                let checked = check(&mut case, &schedule, &[launch], exact);
                assert!(checked.is_ok(), "{}: {checked:?}", dag.name);
            }
        }
    }
}
