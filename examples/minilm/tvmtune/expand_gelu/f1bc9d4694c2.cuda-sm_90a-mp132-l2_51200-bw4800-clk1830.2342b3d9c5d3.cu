#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(256, 2) expand_gelu_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 12288);
  const Index t_0 = Index(blockIdx.x) / 12;
  const Index n_0 = Index(blockIdx.x) % 12;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 h_sum[32];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 4; ++t_2) {
      h_sum[n_0_2 + 8 * t_2] = 0.0f;
    }
  }
  {
    const Index v = 0;
    copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4)], &x[24576 * t_0 + v + 384 * (t / 4) + 4 * (t % 4)], (64 * t_0 + (t / 4)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[1280 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4)], &w[49152 * n_0 + 24576 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
    }
  }
  copy_async_commit();
  {
    const Index v = 0;
    copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4) + 1024], &x[24576 * t_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16], (64 * t_0 + (t / 4)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[1280 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4) + 2560], &w[49152 * n_0 + 24576 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16]);
    }
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 24) {
      {
        const Index v = 0;
        copy_async<16>(&x_copy[v + 16 * (t / 4) + 1024 * ((k_0 + 2) % 3) + 4 * (t % 4)], &x[24576 * t_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32], (64 * t_0 + (t / 4)) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
        {
          const Index v = 0;
          copy_async<16>(&w_copy[1280 * x0_x1_0 + v + 20 * (t / 4) + 2560 * ((k_0 + 2) % 3) + 4 * (t % 4)], &w[49152 * n_0 + 16 * k_0 + 24576 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32]);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 4; ++t_2) {
          h_sum[n_0_2 + 8 * t_2] += x_copy[k_1 + 16 * t_2 + 64 * t_16 + 1024 * (k_0 % 3)] * w_copy[k_1 + 320 * n_0_2 + 20 * t_mod_16 + 2560 * (k_0 % 3)];
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 8; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 4; ++t_3) {
      if ((64 * t_0 + t_3 + 4 * t_16) < T) {
        out[98304 * t_0 + 128 * n_0 + 16 * n_1 + 1536 * t_3 + 6144 * t_16 + t_mod_16] = (0.5f * (h_sum[n_1 + 8 * t_3] + b[128 * n_0 + 16 * n_1 + t_mod_16])) * (1.0f + tvmtune::erf((h_sum[n_1 + 8 * t_3] + b[128 * n_0 + 16 * n_1 + t_mod_16]) * 0.70710677f));
      }
    }
  }
}
