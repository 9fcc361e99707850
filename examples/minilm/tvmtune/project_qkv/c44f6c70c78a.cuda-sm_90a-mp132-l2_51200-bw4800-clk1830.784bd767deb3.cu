#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) project_qkv_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 4352);
  const Index t_0 = Index(blockIdx.x) / 144;
  const Index n_0 = Index(blockIdx.x) % 144;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 out_sum[4];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 2; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 2; ++t_2) {
      out_sum[n_0_2 + 2 * t_2] = 0.0f;
    }
  }
  for (Index k_0 = 0; k_0 < 12; ++k_0) {
    __syncthreads();
    #pragma unroll 4
    for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
      x_copy[2 * x0_x1_0 + (t / 32) + 34 * (t % 32)] = ((32 * t_0 + 2 * x0_x1_0 + (t / 32)) < T) ? x[12288 * t_0 + 32 * k_0 + 768 * x0_x1_0 + 384 * (t / 32) + (t % 32)] : 0.0f;
    }
    {
      const Index v = 0;
      const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[3072 * n_0 + 32 * k_0 + v + 384 * (t / 8) + 4 * (t % 8)]);
      Vec<f32, 4> w_copy_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        w_copy_v[lane] = w_v[lane];
      }
      store(&w_copy[v + 36 * (t / 8) + 4 * (t % 8)], w_copy_v);
    }
    __syncthreads();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 32; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 2; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 2; ++t_2) {
          out_sum[n_0_2 + 2 * t_2] += x_copy[34 * k_1 + t_2 + 2 * t_4] * w_copy[k_1 + 144 * n_0_2 + 36 * t_mod_4];
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 2; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 2; ++t_3) {
      if ((32 * t_0 + t_3 + 2 * t_4) < T) {
        out[36864 * t_0 + 8 * n_0 + 4 * n_1 + 1152 * t_3 + 2304 * t_4 + t_mod_4] = out_sum[n_1 + 2 * t_3] + b[8 * n_0 + 4 * n_1 + t_mod_4];
      }
    }
  }
}
