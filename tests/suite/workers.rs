//! Hostile candidates: whatever code does, it costs one candidate and no more.
//!
//! The code here is written by hand, byte by byte, for a program that copies `n` words.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use tvmtune_cpu::vector::{Count, EntryId, Phase, TableEntry, VectorCode, Width};
use tvmtune_ir::dag::{
    Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Numerics, Subscript, Tensor, TensorId,
    TensorKind,
};
use tvmtune_ir::poly::{DimId, Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Layout, Threads};
use tvmtune_tuner::measure::{
    CaseSpec, Job, Measure, MeasureError, Measurer, Policy, WorkerCommand,
};
use tvmtune_tuner::outcome::Outcome;

/// `y[i] = w[i]` for `n` elements, `n` in 1..=4096; `w` is a weight.
fn copy() -> Arc<Dag> {
    let n = Poly::dim(DimId(0));
    let tensor = |name: &str, kind| Tensor {
        name: name.to_owned(),
        dtype: DType::F32,
        shape: vec![n.clone()],
        kind,
    };
    let index = vec![Subscript::Affine(Poly::var(VarId(0)))];
    let compute = Compute {
        tensor: TensorId(1),
        axes: vec![ComputeAxis { name: "i".to_owned(), extent: n.clone() }],
        n_spatial: 1,
        reducer: None,
        body: Expr::Read { tensor: TensorId(0), index },
    };
    Arc::new(Dag {
        name: "copy".to_owned(),
        dims: vec![Dim {
            name: "N".to_owned(),
            range: Interval { lo: 1, hi: 4096 },
            lower_end: None,
        }],
        scalars: Vec::new(),
        tensors: vec![
            tensor("w", TensorKind::Weight),
            tensor("y", TensorKind::Computed(ComputeId(0))),
        ],
        computes: vec![compute],
        outputs: vec![TensorId(1)],
        numerics: Numerics::Free,
        written_order: None,
        orders: Vec::new(),
        kernel_template: None,
    })
}

/// A kernel of that program: pointers to the weight (in a layout) and the result, `n`, and memory
/// for a temporary. Its tasks are the elements.
fn kernel(layout: Option<Layout>, phases: usize) -> VectorCode {
    let n = Poly::dim(DimId(0));
    let phase = Phase { tasks: vec![(VarId(0), Count::Param(EntryId(2)))], body: Vec::new() };
    VectorCode {
        name: "copy".to_owned(),
        isa: Isa::Avx2,
        width: Width::Bits32,
        table: vec![
            TableEntry::Pointer { tensor: TensorId(0), layout },
            TableEntry::Pointer { tensor: TensorId(1), layout: None },
            TableEntry::Param(n.clone()),
            TableEntry::Workspace { bytes: n * Poly::constant(4) },
        ],
        scratch_bytes: Poly::constant(256),
        n_regs: 0,
        threads: Threads::All,
        phases: vec![phase; phases],
    }
}

/// Copies the words of tasks `first..end` (`rdx`, `rcx`) from table entry `from` to entry `to`,
/// each read `read` and written `write` bytes away from its place.
fn copies(from: u8, to: u8, read: i32, write: i32) -> Vec<u8> {
    let mut code = vec![
        0x48,
        0x8b,
        0x47,
        8 * from, // mov rax, [rdi + 8 * from]
        0x48,
        0x8b,
        0x77,
        8 * to, // mov rsi, [rdi + 8 * to]
        0x48,
        0x39,
        0xca, // again: cmp rdx, rcx
        0x73,
        0x14, // jae done
        0x44,
        0x8b,
        0x84,
        0x90, // mov r8d, [rax + 4 * rdx + read]
    ];
    code.extend(read.to_le_bytes());
    code.extend([0x44, 0x89, 0x84, 0x96]); // mov [rsi + 4 * rdx + write], r8d
    code.extend(write.to_le_bytes());
    code.extend([0x48, 0xff, 0xc2]); // inc rdx
    code.extend([0xeb, 0xe6]); // jmp again
    code.push(0xc3); // done: ret
    // The distances above depend on what lies between.
    let done = code.len() - 1;
    code[12] = (done - 13) as u8;
    code[done - 1] = (8_isize - done as isize) as u8;
    code
}

/// A problem on two cases, one with dimensions where mistakes show, and a worker for it.
struct Bench {
    measurer: Measurer,
    cases: Vec<CaseSpec>,
}

impl Bench {
    fn new() -> Self {
        let (dag, exact) = (copy(), |_| (0.0, 0.0));
        let cases: Vec<_> =
            [1000, 37].iter().map(|n| CaseSpec::new(&dag, &[*n], 7, &exact)).collect();
        let results = |it: &CaseSpec| tvmtune_ir::interp::run(&dag, it.dims(), &it.params(), &[]);
        let expected: Vec<u8> = cases.iter().flat_map(results).flat_map(|it| it.bytes()).collect();
        let mut measurer = Measurer::new(WorkerCommand::new(helper()));
        measurer.set_up(&cases, Some(&expected)).unwrap();
        Self { measurer, cases }
    }

    fn measure(&mut self, layout: Option<Layout>, phases: &[Vec<u8>]) -> Outcome {
        let job = Job::new(&kernel(layout, phases.len()), phases, &self.cases);
        // So that hanging code is not waited for long.
        let policy = Policy { best_ns: Some(1e6), ..Policy::default() };
        self.measurer.measure(&job, &policy).unwrap()
    }
}

fn helper() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_helper"))
}

/// Returns the outcome of this code; good code is measured before and after.
#[track_caller]
fn outcome(phases: &[Vec<u8>]) -> Outcome {
    let mut bench = Bench::new();
    let good = [copies(0, 1, 0, 0)];
    for code in [&good, phases, &good] {
        let outcome = bench.measure(None, code);
        if code != good {
            assert!(matches!(bench.measure(None, &good), Outcome::Timed(_)));
            return outcome;
        }
        assert!(matches!(outcome, Outcome::Timed(_)), "{outcome}");
    }
    panic!("the code is the good one");
}

#[track_caller]
fn crashes(code: Vec<u8>, how: &str) {
    let outcome = outcome(&[code]);
    let Outcome::Crashed(why) = &outcome else { panic!("{outcome}") };
    assert!(why.contains(how), "{why}");
}

#[track_caller]
fn is_wrong(phases: &[Vec<u8>]) {
    let outcome = outcome(phases);
    assert!(matches!(outcome, Outcome::Wrong(_)), "{outcome}");
}

const RET: u8 = 0xc3;

#[test]
fn good_code_is_timed() {
    let outcome = Bench::new().measure(None, &[copies(0, 1, 0, 0)]);
    let Outcome::Timed(timing) = &outcome else { panic!("{outcome}") };
    assert!(timing.min_ns() > 10.0 && timing.min_ns() < 1e8, "{outcome}");
}

#[test]
fn phases_share_temporaries_and_weights_come_packed() {
    let through_memory = [copies(0, 3, 0, 0), copies(3, 1, 0, 0)];
    let mut bench = Bench::new();
    assert!(matches!(bench.measure(None, &through_memory), Outcome::Timed(_)));
    // In this order, stored element n is element n: padding comes last.
    let padded = Layout { splits: vec![(0, 64)], order: vec![0, 1] };
    assert!(matches!(bench.measure(Some(padded), &through_memory), Outcome::Timed(_)));
    let swapped = Layout { splits: vec![(0, 8)], order: vec![1, 0] };
    let other_order = bench.measure(Some(swapped), &through_memory);
    assert!(matches!(other_order, Outcome::Wrong(_)), "{other_order}");
    let impossible = Layout { splits: vec![(9, 8)], order: vec![0] };
    let refused = bench.measure(Some(impossible), &through_memory);
    assert!(matches!(refused, Outcome::Invalid(_)), "{refused}");
}

#[test]
fn code_that_does_nothing_is_wrong_though_the_last_candidate_left_its_results() {
    is_wrong(&[vec![RET]]);
}

#[test]
fn temporaries_of_the_last_candidate_do_not_help() {
    let mut bench = Bench::new();
    let outcome = bench.measure(None, &[copies(0, 3, 0, 0), copies(3, 1, 0, 0)]);
    assert!(matches!(outcome, Outcome::Timed(_)), "{outcome}");
    let reuses = bench.measure(None, &[vec![RET], copies(3, 1, 0, 0)]);
    assert!(matches!(reuses, Outcome::Wrong(_)), "{reuses}");
}

#[test]
fn wrong_elements_are_found() {
    // The second phase moves each element of the result by one: in bounds but for the first.
    is_wrong(&[copies(0, 1, 0, 0), copies(1, 1, -4, 0)]);
}

#[test]
fn code_that_is_wrong_only_at_awkward_dimensions_is_wrong() {
    // Tests n for a multiple of 8 and copies nothing where it is none: 1000 is one, 37 is not.
    let mut code = vec![
        0xf6, 0x47, 0x10, 0x07, // test byte [rdi + 16], 7
        0x74, 0x01, // jz over the return
        RET,
    ];
    code.extend(copies(0, 1, 0, 0));
    is_wrong(&[code]);
}

#[test]
fn code_that_touches_what_is_not_its_own_crashes() {
    // The fault is one element beyond either end, or in memory that is only to be read.
    crashes(copies(0, 1, 4, 0), "outside");
    crashes(copies(0, 1, 0, 4), "outside");
    crashes(copies(1, 0, 0, 0), "outside");
    crashes(vec![0x31, 0xc0, 0x8b, 0x00, RET], "outside"); // mov eax, [0]
}

#[test]
fn code_that_is_no_code_crashes() {
    crashes(vec![0x0f, 0x0b], "illegal");
}

#[test]
fn code_that_hangs_is_given_up() {
    let start = Instant::now();
    assert_eq!(outcome(&[vec![0xeb, 0xfe]]), Outcome::TimedOut);
    assert!(start.elapsed().as_secs() < 30);
}

/// The process that this thread started last.
fn started_last() -> String {
    let of_thread = std::fs::read_link("/proc/thread-self").unwrap();
    let children = std::fs::read_to_string(PathBuf::from("/proc").join(of_thread).join("children"));
    children.unwrap().split_whitespace().next_back().unwrap().to_owned()
}

#[test]
fn a_worker_that_stops_is_given_up_at_the_deadline() {
    let mut bench = Bench::new();
    let stopped = Command::new("kill").args(["-STOP", &started_last()]).status().unwrap();
    assert!(stopped.success());
    // More than a pipe holds, and without a latency to beat, which would set a shorter limit.
    let mut code = copies(0, 1, 0, 0);
    code.resize(1 << 20, RET);
    let job = Job::new(&kernel(None, 1), &[code], &bench.cases);
    bench.measurer.set_deadline(Some(Instant::now()));
    let clock = Instant::now();
    let outcome = bench.measurer.measure(&job, &Policy::default()).unwrap();
    assert_eq!(outcome, Outcome::TimedOut);
    assert!(clock.elapsed().as_secs() < 20, "{:?}", clock.elapsed());
    // Another worker takes its place.
    let outcome = bench.measurer.measure(&job, &Policy::default()).unwrap();
    assert!(matches!(outcome, Outcome::Timed(_)), "{outcome}");
}

#[test]
fn code_that_ends_its_process_crashes() {
    // exit(0), by system call: it may not pass for success.
    let exit = vec![0xb8, 0xe7, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];
    crashes(exit, "exit");
}

#[test]
fn code_that_talks_for_its_worker_crashes() {
    // write(1, rip, 64): bytes on the pipe that are no answer.
    let mut talk = vec![
        0xb8, 1, 0, 0, 0, // mov eax, 1
        0xbf, 1, 0, 0, 0, // mov edi, 1
        0x48, 0x8d, 0x35, 0, 0, 0, 0, // lea rsi, [rip]
        0xba, 64, 0, 0, 0, // mov edx, 64
        0x0f, 0x05, // syscall
        RET,
    ];
    talk.resize(128, 0x55);
    crashes(talk, "nonsense");
}

#[test]
fn an_executable_that_is_no_worker_is_told_apart() {
    for args in [["garbage"].as_slice(), &["put"]] {
        let command =
            args.iter().fold(WorkerCommand::new(helper()), |command, it| command.arg(*it));
        let error = Measurer::new(command).set_up(&[], None).unwrap_err();
        assert!(matches!(error, MeasureError::NoWorker(_)), "{error}");
    }
    let missing = Measurer::new(WorkerCommand::new("there/is/no/such/file".into()));
    let error = { missing }.set_up(&[], None).unwrap_err();
    assert!(matches!(error, MeasureError::Start { .. }), "{error}");
}

#[test]
fn candidates_are_timed_side_by_side() {
    let mut bench = Bench::new();
    let once = Job::new(&kernel(None, 1), &[copies(0, 1, 0, 0)], &bench.cases);
    let twice = [copies(0, 3, 0, 0), copies(3, 1, 0, 0), copies(0, 3, 0, 0)];
    let thrice = Job::new(&kernel(None, 3), &twice, &bench.cases);
    let timings = bench.measurer.compare(&[&once, &thrice], 10, &Policy::default()).unwrap();
    let timings = timings.unwrap();
    assert_eq!(timings.iter().map(|it| it.samples_ns().len()).collect::<Vec<_>>(), [10, 10]);
    assert!(timings[0].min_ns() < timings[1].min_ns());
}
