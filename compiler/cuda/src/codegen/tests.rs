//! The text of printed CUDA.

use crate::codegen::print;
use crate::grid;
use tvmtune_ir::dsl;
use tvmtune_schedule::nest;
use tvmtune_schedule::{Instruction, Schedule};

/// The schedule that a trace, a line an instruction, makes of a program.
fn scheduled(program: &str, trace: &str) -> Schedule {
    let lines = trace.lines().map(str::trim).filter(|it| !it.is_empty());
    let trace: Vec<Instruction> = lines.map(|it| it.parse().unwrap()).collect();
    Schedule::replay(&dsl::program(program).unwrap(), &trace).unwrap()
}

fn cuda(program: &str, trace: &str) -> String {
    let nest = nest::lower(&scheduled(program, trace));
    print(&grid::place(&nest).unwrap()).source
}

const MATMUL: &str = "
    #[autotune(dims(M = 1..=100, N = 64, K = 40))]
    fn matmul(a: Tensor<f32, M, K>, b: Tensor<f32, N, K>, c: Tensor<f32, N>) -> Tensor<f32, M, N> {
        let h = compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[j, k]]));
        compute(|i, j| h[[i, j]] + c[[j]])
    }";

const TILED: &str = "split s1 a0 [8, 4]
    split s1 a1 [16, 4]
    reorder s1 [a2, a5, a3, a6, a4, a7]
    annotate s1 a2 parallel
    annotate s1 a5 parallel
    annotate s1 a3 thread
    annotate s1 a6 thread
    annotate s1 a4 unrolled
    annotate s1 a7 vectorized
    compute_at s0 s1 a5
    split s0 a0 [4]
    split s0 a1 [4]
    split s0 a2 [8]
    reorder s0 [a7, a3, a5, a8, a4, a6]
    annotate s0 a3 thread
    annotate s0 a5 thread
    annotate s0 a4 unrolled
    annotate s0 a6 unrolled
    cache_read t0 s0
    compute_at s2 s0 a7
    fuse s2 a0 a1
    split s2 a2 [4]
    split s2 a3 [128]
    annotate s2 a4 vectorized
    annotate s2 a6 thread
    cache_read t1 s0
    compute_at s3 s0 a7
    fuse s3 a0 a1
    split s3 a2 [4]
    split s3 a3 [128]
    annotate s3 a4 vectorized
    annotate s3 a6 thread";

#[test]
#[expect(clippy::too_many_lines, reason = "the text is the test")]
fn a_tiled_product() {
    insta::assert_snapshot!(cuda(MATMUL, TILED), @r##"
    #include "tvmtune/types.cuh"
    #include "tvmtune/math.cuh"
    #include "tvmtune/copy.cuh"
    #include "tvmtune/warp.cuh"

    using namespace tvmtune;
    using Index = int;

    extern "C" __global__ void __launch_bounds__(128, 2) matmul_0(const f32* __restrict__ a, const f32* __restrict__ b, const f32* __restrict__ c, f32* __restrict__ out, Index M) {
      extern __shared__ __align__(1024) unsigned char shared[];
      f32* const a_copy = reinterpret_cast<f32*>(shared + 0);
      f32* const b_copy = reinterpret_cast<f32*>(shared + 1536);
      const Index i_0 = Index(blockIdx.x);
      const Index j_0 = 0;
      const Index t_mod_16 = Index(threadIdx.x) % 16;
      const Index t = Index(threadIdx.x);
      const Index t_16 = Index(threadIdx.x) / 16;
      f32 h[16];
      #pragma unroll
      for (Index i_1 = 0; i_1 < 4; ++i_1) {
        #pragma unroll
        for (Index j_1 = 0; j_1 < 4; ++j_1) {
          h[4 * i_1 + j_1] = 0.0f;
        }
      }
      for (Index k_0 = 0; k_0 < 5; ++k_0) {
        __syncthreads();
        if (t < 64) {
          {
            const Index v = 0;
            Vec<f32, 4> a_v{};
            if ((32 * i_0 + (t / 2)) < M) a_v = load_constant<Vec<f32, 4>>(&a[1280 * i_0 + 8 * k_0 + v + 40 * (t / 2) + 4 * (t % 2)]);
            Vec<f32, 4> a_copy_v;
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
              a_copy_v[lane] = ((32 * i_0 + (t / 2)) < M) ? a_v[lane] : 0.0f;
            }
            store(&a_copy[v + 12 * (t / 2) + 4 * (t % 2)], a_copy_v);
          }
        }
        {
          const Index v = 0;
          const Vec<f32, 4> b_v = load_constant<Vec<f32, 4>>(&b[8 * k_0 + v + 40 * (t / 2) + 4 * (t % 2)]);
          Vec<f32, 4> b_copy_v;
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) {
            b_copy_v[lane] = b_v[lane];
          }
          store(&b_copy[v + 12 * (t / 2) + 4 * (t % 2)], b_copy_v);
        }
        __syncthreads();
        for (Index k_1 = 0; k_1 < 8; ++k_1) {
          #pragma unroll
          for (Index i_1 = 0; i_1 < 4; ++i_1) {
            #pragma unroll
            for (Index j_1 = 0; j_1 < 4; ++j_1) {
              h[4 * i_1 + j_1] += a_copy[k_1 + 12 * i_1 + 48 * t_16] * b_copy[k_1 + 12 * j_1 + 48 * t_mod_16];
            }
          }
        }
      }
      #pragma unroll
      for (Index i_2 = 0; i_2 < 4; ++i_2) {
        {
          const Index v = 0;
          if ((32 * i_0 + i_2 + 4 * t_16) < M) {
            const Vec<f32, 4> c_v = load_constant<Vec<f32, 4>>(&c[v + 4 * t_mod_16]);
            Vec<f32, 4> out_v;
            #pragma unroll
            for (int lane = 0; lane < 4; ++lane) {
              out_v[lane] = h[4 * i_2 + (v + lane)] + c_v[lane];
            }
            store(&out[2048 * i_0 + 64 * i_2 + v + 256 * t_16 + 4 * t_mod_16], out_v);
          }
        }
      }
    }
    "##);
}

#[test]
fn blocks_do_not_all_reduce_beside_a_producer() {
    let program = "
        #[autotune(dims(M = 4, K = 256))]
        fn sums(x: Tensor<f32, M, K>) -> Tensor<f32, M> { compute(|i| sum(0..K, |k| x[[i, k]])) }";
    let placed = |kind: &str, threads: u32| {
        let trace = format!(
            "cache_read t0 s0
            split s0 a1 [{threads}]
            annotate s0 a0 parallel
            compute_at s1 s0 a2
            annotate s0 a3 thread
            annotate s0 a2 {kind}"
        );
        grid::place(&nest::lower(&scheduled(program, &trace))).map(|it| it.body.len())
    };
    assert_eq!(placed("pipelined:2", 64), Ok(1));
    assert_eq!(placed("warp_specialized:2", 32), Ok(1), "a warp all-reduces alone");
    assert_eq!(
        placed("warp_specialized:2", 64),
        Err(grid::Unplaceable::BlockReductionBesideProducer)
    );
}
