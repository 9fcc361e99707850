//! The profile of accesses, line by line, without a GPU.

use tvmtune_emulator::{AccessedMemory, Launch, Memory, Options, Report};

use crate::common::{line_of, module};

/// The report of two blocks.
fn report(fixture: &str) -> Report {
    let module = module(fixture);
    let mut device = Memory::new();
    let [a, b] = ["a", "b"].map(|it| device.add(it, vec![0; 4 * 32 * 64]));
    let launch =
        Launch { grid: [2, 1, 1], block: [32, 8, 1], cluster: None, dynamic_shared_bytes: 0 };
    let arguments = [a.into(), b.into(), 32i32.into(), 64i32.into()];
    let options = Options { profile: true, ..Options::default() };
    let kernel = module.kernel("transpose").unwrap();
    kernel.run(&launch, &arguments, &mut device, &options).unwrap()
}

/// Wavefronts or sectors of a line, and how many would do.
fn cost(fixture: &str, memory: AccessedMemory, write: bool, text: &str) -> (u64, u64) {
    let report = report(fixture);
    let line = line_of("transpose.cu", text);
    let of_line = report.accesses.iter().filter(|it| {
        it.memory == memory
            && it.write == write
            && it.location.as_ref().is_some_and(|it| it.outermost().line == line)
    });
    of_line.fold((0, 0), |sum, it| (sum.0 + it.transactions, sum.1 + it.ideal))
}

#[test]
fn padding_removes_bank_conflicts() {
    let out = "b[row * rows + col] = tile[x][i];";
    let (shared, global) = (AccessedMemory::Shared, AccessedMemory::Global);
    assert_eq!(cost("transpose.sm_75", shared, false, out), (64, 64));
    assert_eq!(cost("transpose.no_padding.sm_75", shared, false, out), (32 * 64, 64));
    assert_eq!(cost("transpose.sm_75", global, true, out), (4 * 64, 4 * 64));
    let inwards = "tile[i][x] = a[row * cols + col];";
    assert_eq!(cost("transpose.no_padding.sm_75", shared, true, inwards), (64, 64));
    assert_eq!(cost("transpose.sm_75", global, false, inwards), (4 * 64, 4 * 64));
}

#[test]
fn each_block_counts_the_barriers_at_which_it_waits() {
    assert_eq!(report("transpose.sm_75").barriers, 2);
}
