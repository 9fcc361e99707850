#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) expand_gelu_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 8192);
  const Index t_0 = Index(blockIdx.x) / 24;
  const Index n_0 = Index(blockIdx.x) % 24;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 h_sum[128];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 8; ++t_2) {
      #pragma unroll
      for (Index n_2 = 0; n_2 < 2; ++n_2) {
        h_sum[2 * n_0_2 + 16 * t_2 + n_2] = 0.0f;
      }
    }
  }
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    __syncthreads();
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
      {
        const Index v = 0;
        Vec<f32, 4> x_v{};
        if ((128 * t_0 + 16 * x0_x1_0 + (t / 4)) < T) x_v = load_constant<Vec<f32, 4>>(&x[49152 * t_0 + 16 * k_0 + 6144 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
        Vec<f32, 4> x_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          x_copy_v[lane] = ((128 * t_0 + 16 * x0_x1_0 + (t / 4)) < T) ? x_v[lane] : 0.0f;
        }
        store(&x_copy[256 * x0_x1_0 + v + 16 * (t / 4) + 4 * (t % 4)], x_copy_v);
      }
    }
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 4; ++x0_x1_0) {
      {
        const Index v = 0;
        const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[24576 * n_0 + 16 * k_0 + 6144 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
        Vec<f32, 4> w_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          w_copy_v[lane] = w_v[lane];
        }
        store(&w_copy[320 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4)], w_copy_v);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 8; ++t_2) {
          #pragma unroll
          for (Index n_2 = 0; n_2 < 2; ++n_2) {
            h_sum[2 * n_0_2 + 16 * t_2 + n_2] += x_copy[k_1 + 16 * t_2 + 128 * t_4] * w_copy[k_1 + 160 * n_0_2 + 20 * n_2 + 40 * t_mod_4];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 8; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 8; ++t_3) {
      {
        const Index v = 0;
        if ((128 * t_0 + t_3 + 8 * t_4) < T) {
          const Vec<f32, 2> b_v = load_constant<Vec<f32, 2>>(&b[64 * n_0 + 8 * n_1 + v + 2 * t_mod_4]);
          Vec<f32, 2> out_v;
          #pragma unroll
          for (int lane = 0; lane < 2; ++lane) {
            out_v[lane] = (0.5f * (h_sum[2 * n_1 + 16 * t_3 + (v + lane)] + b_v[lane])) * (1.0f + tvmtune::erf((h_sum[2 * n_1 + 16 * t_3 + (v + lane)] + b_v[lane]) * 0.70710677f));
          }
          store(&out[196608 * t_0 + 64 * n_0 + 8 * n_1 + 1536 * t_3 + v + 12288 * t_4 + 2 * t_mod_4], out_v);
        }
      }
    }
  }
}
