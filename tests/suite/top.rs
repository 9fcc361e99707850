//! `argtop` as users have it: by machine code and by portable code, against a stable sort; and the
//! default schedule for a GPU, by the emulator.

use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::{dsl, target::gpu::GpuTarget};
use tvmtune_runtime::{Cpu, Isa, autotune};
use tvmtune_space::default;
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;

use crate::cuda::HOPPER;

#[autotune(dims(M = 1..=20, V = 1003, K = 6))]
pub fn top(logits: Tensor<f32, M, V>) -> (Tensor<i32, M, K>, Tensor<f32, M, K>) {
    let ids = compute(|i, r| argtop(r, 0..V, |v| logits[[i, v]]) as i32);
    let values = compute(|i, r| logits.get([i, ids[[i, r]]]).unwrap_or(0.0));
    (ids, values)
}

const V: usize = 1003;
const K: usize = 6;

/// Rows with many equal values, NaNs and infinities; one of nothing but NaNs.
fn rows(m: usize) -> Vec<f32> {
    let value = |n: usize| match (n / V, n.wrapping_mul(2_654_435_761) >> 7) {
        (3, _) => f32::NAN,
        (2, it) => [f32::NEG_INFINITY, f32::NAN, 0.0, -0.0][it % 4],
        (_, it) if it % 97 == 0 => f32::NAN,
        (_, it) => (it % 50) as f32 - 25.0,
    };
    (0..m * V).map(value).collect()
}

/// By sorting: descending, ties by index; where numbers run out, the last index.
fn sorted(row: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).filter(|it| !row[*it].is_nan()).collect();
    order.sort_by(|a, b| row[*b].partial_cmp(&row[*a]).unwrap().then(a.cmp(b)));
    order.truncate(K);
    order.resize(K, row.len() - 1);
    order
}

#[test]
fn ranks_are_those_of_a_stable_sort() {
    for m in [1, 5, 20] {
        let x = rows(m);
        let expected: Vec<usize> = x.chunks(V).flat_map(sorted).collect();
        for cpu in [Cpu::new(), Cpu::new().at_most(Isa::Portable)] {
            let (mut ids, mut values) = (vec![0; m * K], vec![0.0; m * K]);
            top(&cpu, &x, &mut ids, &mut values).unwrap();
            assert_eq!(ids.iter().map(|it| *it as usize).collect::<Vec<_>>(), expected);
            for (n, (id, value)) in ids.iter().zip(&values).enumerate() {
                let there = x[n / K * V + *id as usize];
                assert!(there == *value || there.is_nan() && value.is_nan());
            }
        }
    }
}

#[test]
fn a_gpu_runs_the_default_schedule() {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(
        "#[autotune(dims(M = 3, V = 300, K = 4))]
         fn top(x: Tensor<f32, M, V>) -> Tensor<i32, M, K> {
             compute(|i, r| argtop(r, 0..V, |v| x[[i, v]]) as i32)
         }",
    );
    let dag = dag.unwrap();
    let x = Array::from_f32(&[3, 300], rows(1)[..900].to_vec());
    let expected = interp::run(&dag, &[], std::slice::from_ref(&x), &[]);
    let schedule = default::schedule(&dag, &GpuTarget::generic(HOPPER).into());
    let generated = tvmtune_cuda::generate(&schedule).unwrap();
    let ptx = crate::cuda::ptx(nvrtc, &generated.unit.source, "compute_90a");
    let module = tvmtune_emulator::Module::parse(&ptx).unwrap();
    let options = tvmtune_emulator::Options::default();
    let found = emulate::run(&generated, &module, &[], &[x], &[], &options).unwrap();
    assert_eq!(found[0].max_error(&expected[0], 0.0, 0.0), None);
}
