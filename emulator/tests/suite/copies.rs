//! Bulk copies: boxes of tensors of every rank, and bytes between the CTAs of a cluster.

use tvmtune_emulator::{Element, Fault, FaultKind, Swizzle, TensorMap};

use crate::common::{Numbers, Run, all_options, assert_fault, module};

/// A box of a tensor: the kernel that copies it, and where it begins.
struct Case {
    kernel: &'static str,
    dims: Vec<u64>,
    box_dims: Vec<u32>,
    steps: Vec<u32>,
    swizzle: Swizzle,
    at: [i32; 5],
}

fn cases() -> Vec<Case> {
    let case = |kernel, dims: &[u64], box_dims: &[u32], swizzle, at| Case {
        kernel,
        dims: dims.to_vec(),
        box_dims: box_dims.to_vec(),
        steps: vec![1; dims.len()],
        swizzle,
        at,
    };
    let mut cases = vec![
        case("rank_1", &[100], &[32], Swizzle::None, [80, 0, 0, 0, 0]),
        case("rank_2", &[20, 9], &[8, 16], Swizzle::Bytes32, [16, -3, 0, 0, 0]),
        case("rank_2", &[64, 9], &[16, 8], Swizzle::Bytes64, [-5, 4, 0, 0, 0]),
        case("rank_2", &[40, 40], &[32, 32], Swizzle::Bytes128, [3, 7, 0, 0, 0]),
        case("add_2", &[40, 40], &[32, 32], Swizzle::Bytes128, [3, 7, 0, 0, 0]),
        case("rank_3", &[12, 5, 4], &[8, 3, 2], Swizzle::None, [2, 3, 3, 0, 0]),
        case("rank_5", &[8, 3, 2, 3, 2], &[4, 2, 2, 2, 2], Swizzle::None, [4, 2, -1, 1, 1]),
        case("rank_2", &[40, 20], &[16, 12], Swizzle::None, [1, 2, 0, 0, 0]),
    ];
    cases[7].steps = vec![2, 3];
    cases
}

#[test]
fn boxes_of_tensors_are_copied_and_clipped() {
    let module = module("tensor_copies.sm_90a");
    for (case, options) in
        cases().iter().flat_map(|it| all_options().into_iter().map(move |o| (it, o)))
    {
        let n: u64 = case.dims.iter().product();
        let values: Vec<i32> = (1..=n as i32).collect();
        let mut run = Run::new(1, 32).shared_bytes(16384 + 8).options(&options);
        let (source, target) = (run.add(&values), run.add(&vec![-7i32; n as usize]));
        let map = |buffer| {
            let map = TensorMap::dense(buffer, Element::I32, &case.dims, &case.box_dims);
            TensorMap { element_strides: case.steps.clone(), ..map }.swizzled(case.swizzle)
        };
        let bytes = map(source).box_bytes();
        run = run.argument(map(source)).argument(map(target)).buffer(&[-1i32; 4096]);
        run = case.at.into_iter().fold(run.argument(bytes as i32), Run::argument);
        let run = run.run(&module, case.kernel).unwrap();
        let (image, target): (Vec<i32>, Vec<i32>) = (run.read(2), run.read(1));
        let mut want = vec![-7; n as usize];
        for place in 0..bytes as usize / 4 {
            // The element's index in each dimension, and so in memory.
            let (mut left, mut index, mut pitch, mut inside) = (place, 0, 1, true);
            for (d, extent) in case.dims.iter().enumerate() {
                let n_steps = case.box_dims[d].div_ceil(case.steps[d]) as usize;
                let at = i64::from(case.at[d]) + (left % n_steps) as i64 * i64::from(case.steps[d]);
                left /= n_steps;
                inside &= (0..*extent as i64).contains(&at);
                index += at * pitch;
                pitch *= *extent as i64;
            }
            let value = if inside { values[index as usize] } else { 0 };
            let swizzled = case.swizzle.apply(place as u32 * 4) as usize / 4;
            assert_eq!(image[swizzled], value, "{} at {place}", case.kernel);
            if inside {
                let old = if case.kernel == "add_2" { -7 } else { 0 };
                want[index as usize] = value + old;
            }
        }
        assert_eq!(target, want, "{}", case.kernel);
    }
}

fn neighbours(fixture: &str) -> Result<Vec<i32>, Box<Fault>> {
    let module = module(fixture);
    let values: Vec<i32> = (0..256).collect();
    let run = Run::new(8, 32).buffer(&values).buffer(&[0i32; 256]);
    Ok(run.run(&module, "neighbours")?.read(1))
}

#[test]
fn clusters_share_their_memory() {
    let got = neighbours("clusters.sm_90a").unwrap();
    for (n, got) in got.iter().enumerate() {
        let (cta, lane) = (n / 32, n % 32);
        let next = cta / 4 * 4 + (cta + 1) % 4;
        assert_eq!(*got as usize, next * 32 + lane + 100 + 496);
    }
    let line = "/* of the neighbour */";
    let unordered = neighbours("clusters.no_cluster_sync.sm_90a");
    assert_fault(unordered, FaultKind::Uninitialised, "clusters.cu", line);
    let ended = neighbours("clusters.early_exit.sm_90a").unwrap_err();
    assert!(matches!(ended.kind, FaultKind::ExitWhilePending | FaultKind::Race), "{ended}");
}

#[test]
fn bytes_go_round_a_cluster() {
    for fixture in ["clusters.sm_90a", "clusters.no_store_wait.sm_90a"] {
        for options in all_options() {
            let module = module(fixture);
            let values = Numbers::new(16).floats(128);
            let run = Run::new(2, 32).shared_bytes(512).options(&options);
            let run = run.buffer(&values).buffer(&[1f32; 64]).argument(64i32);
            let got: Vec<f32> = match run.run(&module, "bytes") {
                Ok(run) if fixture == "clusters.sm_90a" => run.read(1),
                run => {
                    let kind = run.err().map(|it| it.kind);
                    assert_eq!(kind, Some(FaultKind::ExitWhilePending), "{fixture}");
                    continue;
                }
            };
            for (n, got) in got.iter().enumerate() {
                assert!((got - 1.0 - values[n] - values[64 + n]).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn mbarriers_are_told_of_copies() {
    let values: Vec<i32> = (0..512).collect();
    for options in all_options() {
        let run = |fixture: &str| {
            let module = module(fixture);
            let run = Run::new(1, 64).options(&options).buffer(&values).buffer(&[0i32; 128]);
            Ok(run.run(&module, "arrive")?.read::<i32>(1))
        };
        let got = run("arrive.sm_80").unwrap();
        for (n, got) in got.iter().enumerate() {
            assert_eq!(*got as usize, (n / 64 * 64 + 63 - n % 64) * 4);
        }
        let fault: Result<_, Box<Fault>> = run("arrive.no_wait.sm_80");
        let kind = fault.unwrap_err().kind;
        assert!(matches!(kind, FaultKind::Race | FaultKind::Uninitialised), "{kind:?}");
    }
}
