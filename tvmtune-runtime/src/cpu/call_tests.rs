//! Rust functions stand in for machine code: they follow the same convention.

use super::{Cpu, run};
use crate::raw::{Arg, Call, Layout, Scalar, TableEntry, Threads, Variant, WeightArg};
use crate::{Held, Isa, Tier, Weight};

const X: TableEntry = TableEntry::Pointer(0, None);
const OUT: TableEntry = TableEntry::Pointer(1, None);

static SWAPPED: Layout = Layout { splits: &[], order: &[1, 0] };

/// A kernel of `n = dims[0]` tasks, with `8 * n` bytes for each temporary and 64 of scratch.
fn variant(
    entries: &'static [super::Entry],
    table: &'static [TableEntry],
    numbers: fn(&[i64], &mut [u64]),
) -> Variant {
    Variant {
        isa: Isa::Portable,
        threads: Threads::All,
        entries,
        table,
        numbers,
        tier: Tier::Default,
        median_ns: None,
        effort: crate::Effort::NONE,
        artifact: "",
    }
}

/// Runs the variant for `n` elements; returns what it wrote.
#[track_caller]
fn launch(cpu: &Cpu, variant: &Variant, weight: &Weight<f32>, n: usize) -> Vec<f32> {
    let shape = [n, weight.len() / n];
    let weight = WeightArg::<f32>::new(Held::Weight(weight), &shape);
    let mut out = vec![f32::NAN; n];
    let args = [Arg::weight(&weight), Arg::output(&mut out)];
    let (dims, scalars) = ([n as i64], [Scalar::bits(0.5_f32)]);
    let (names, args) = (&["x", "out"], &args);
    let call = Call { kernel: "test", names, dims: &dims, args, scalars: &scalars, traced: None };
    // SAFETY: the entries of these tests write elements `0..n` of the result and read as many of
    // the weight.
    unsafe { run(cpu, variant, &call) }.expect("it runs");
    out
}

/// Phase 1: `temporary[task] = 2 * x[task]`, by way of scratch memory.
unsafe extern "sysv64" fn double(table: *const u64, scratch: *mut u8, first: u64, end: u64) {
    assert_eq!(scratch.addr() % 64, 0);
    for task in first as usize..end as usize {
        // SAFETY: the table is that of the test below.
        unsafe {
            let (x, temporary) = (*table.add(0) as *const f32, *table.add(2) as *mut f32);
            assert_eq!(temporary.addr() % 64, 0);
            let scratch = scratch.cast::<f32>().add(15);
            *scratch = *x.add(task);
            *temporary.add(task) = *scratch * 2.0;
        }
    }
}

/// Phase 2: `out[task] = temporary[n - 1 - task] + scalar`.
unsafe extern "sysv64" fn reverse(table: *const u64, _: *mut u8, first: u64, end: u64) {
    for task in first as usize..end as usize {
        // SAFETY: the table is that of the test below.
        unsafe {
            let (out, temporary) = (*table.add(1) as *mut f32, *table.add(2) as *const f32);
            let (n, scalar) = (*table.add(3) as usize, f32::from_bits(*table.add(4) as u32));
            *out.add(task) = *temporary.add(n - 1 - task) + scalar;
        }
    }
}

/// `out[n] = 2 * x[last - n] + scalar`, in two phases.
fn two_phases() -> Variant {
    variant(
        &[double, reverse],
        &[
            X,
            OUT,
            TableEntry::Workspace,
            TableEntry::Param,
            TableEntry::Scalar(0),
            TableEntry::Workspace,
        ],
        |dims, numbers| {
            let n = dims[0] as u64;
            numbers[2] = 4 * n;
            numbers[3] = n;
            numbers[5] = 8 * n;
            numbers[6..].copy_from_slice(&[n, n, 64]);
        },
    )
}

#[test]
fn phases_see_arguments_temporaries_numbers_and_scalars() {
    let two_phases = two_phases();
    for n in [1, 2, 7, 64, 1000, 5000] {
        let x: Weight<f32> = (0..n).map(|it| it as f32).collect();
        let want: Vec<f32> = (0..n).rev().map(|it| it as f32 * 2.0 + 0.5).collect();
        assert_eq!(launch(&Cpu::new(), &two_phases, &x, n), want);
        assert_eq!(launch(&Cpu::new().alone(), &two_phases, &x, n), want);
    }
}

#[test]
fn launches_from_many_threads_do_not_disturb_each_other() {
    let two_phases = two_phases();
    std::thread::scope(|scope| {
        for thread in 1..8 {
            let two_phases = &two_phases;
            scope.spawn(move || {
                for n in 1..200 {
                    let x: Weight<f32> = (0..n).map(|it| (it * thread) as f32).collect();
                    let out = launch(&Cpu::new(), two_phases, &x, n);
                    let want = |task: usize| ((n - 1 - task) * thread) as f32 * 2.0 + 0.5;
                    assert!((0..n).all(|task| out[task] == want(task)));
                }
            });
        }
    });
}

#[test]
fn a_phase_without_tasks_is_skipped() {
    unsafe extern "sysv64" fn never(_: *const u64, _: *mut u8, _: u64, _: u64) {
        unreachable!("there are no tasks");
    }
    let empty = variant(&[never], &[X, OUT], |_, numbers| numbers[2..].copy_from_slice(&[0, 0]));
    assert!(launch(&Cpu::new(), &empty, &Weight::new([1.0]), 1)[0].is_nan());
}

#[test]
fn a_weight_comes_in_the_layout_that_the_kernel_wants() {
    /// `out[task] = w[task]`
    unsafe extern "sysv64" fn copy(table: *const u64, _: *mut u8, first: u64, end: u64) {
        for task in first as usize..end as usize {
            // SAFETY: the table is that of this test.
            unsafe { *(*table.add(1) as *mut f32).add(task) = *(*table as *const f32).add(task) };
        }
    }
    static TABLE: [TableEntry; 2] = [TableEntry::Pointer(0, Some(&SWAPPED)), OUT];
    let packed = variant(&[copy], &TABLE, |dims, numbers| {
        numbers[2..].copy_from_slice(&[dims[0] as u64, 0]);
    });
    let weight = Weight::new([0.0, 1.0, 10.0, 11.0, 20.0, 21.0]);
    assert_eq!(launch(&Cpu::new(), &packed, &weight, 3), [0.0, 10.0, 20.0]);
    assert_eq!(weight.n_packed(), 1);
}

#[test]
fn many_entries_fit_too() {
    /// `out[0] =` the last number of the table.
    unsafe extern "sysv64" fn last(table: *const u64, _: *mut u8, _: u64, _: u64) {
        // SAFETY: the table is that of this test.
        unsafe { *(*table.add(1) as *mut f32) = *table.add(99) as f32 };
    }
    static TABLE: [TableEntry; 100] = {
        let mut table = [TableEntry::Param; 100];
        table[0] = X;
        table[1] = OUT;
        table
    };
    let large = variant(&[last], &TABLE, |_, numbers| {
        numbers[99] = 42;
        numbers[100..].copy_from_slice(&[1, 0]);
    });
    assert_eq!(launch(&Cpu::new(), &large, &Weight::new([0.0]), 1), [42.0]);
}

#[test]
fn temporaries_beyond_all_memory_are_an_error() {
    unsafe extern "sysv64" fn never(_: *const u64, _: *mut u8, _: u64, _: u64) {
        unreachable!("there is no memory for it");
    }
    static TABLE: [TableEntry; 4] = [X, OUT, TableEntry::Workspace, TableEntry::Workspace];
    let bytes = |first: u64, second: u64| super::workspace_bytes(&TABLE, &[0, 0, first, second]);
    assert_eq!((bytes(1, 64), bytes(1 << 62, 0)), (Some(128), Some(1 << 62)));
    assert_eq!(bytes(u64::MAX, 0), None, "no whole lines");
    assert_eq!(bytes(1 << 63, 1 << 63), None, "the sum would be nothing");
    let huge = variant(&[never], &TABLE, |_, numbers| {
        numbers[2..].copy_from_slice(&[1 << 63, (1 << 63) + 64, 1, 0]);
    });
    let weight = Weight::new([1.0_f32]);
    let weight = WeightArg::<f32>::new(Held::Weight(&weight), &[1]);
    let mut out = [0.0_f32];
    let args = [Arg::weight(&weight), Arg::output(&mut out)];
    let (names, args) = (&["x", "out"], &args);
    let call = Call { kernel: "huge", names, dims: &[1], args, scalars: &[], traced: None };
    // SAFETY: nothing runs.
    let result = unsafe { run(&Cpu::new(), &huge, &call) };
    assert!(matches!(result, Err(crate::Error::OutOfMemory { bytes: usize::MAX, .. })));
}

#[cfg(not(miri))]
#[test]
fn the_modes_of_a_caller_change_no_result() {
    /// `out[task] = x[task] / 2`
    unsafe extern "sysv64" fn halve(table: *const u64, _: *mut u8, first: u64, end: u64) {
        for task in first as usize..end as usize {
            // SAFETY: the table is that of this test.
            unsafe {
                *(*table.add(1) as *mut f32).add(task) = *(*table as *const f32).add(task) / 2.0;
            };
        }
    }
    let halves = variant(&[halve], &[X, OUT], |dims, numbers| {
        numbers[2..].copy_from_slice(&[dims[0] as u64, 0]);
    });
    // The results are denormal, and half a unit of the last place is rounded.
    let x: Weight<f32> = (0..1000_u32).map(|n| f32::from_bits(0x0080_0000 + n)).collect();
    let want: Vec<f32> = x.iter().map(|it| it / 2.0).collect();
    for cpu in [Cpu::new(), Cpu::new().alone()] {
        let got = super::super::modes::in_other_modes(|| launch(&cpu, &halves, &x, 1000));
        let bits = |it: &[f32]| it.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&got), bits(&want));
    }
}
