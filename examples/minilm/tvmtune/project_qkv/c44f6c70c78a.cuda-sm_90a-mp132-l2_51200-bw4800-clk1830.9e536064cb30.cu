#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) project_qkv_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 24576);
  const Index t_0 = Index(blockIdx.x) / 18;
  const Index n_0 = Index(blockIdx.x) % 18;
  const Index t_mod_8 = Index(threadIdx.x) % 8;
  const Index t = Index(threadIdx.x);
  const Index t_8 = Index(threadIdx.x) / 8;
  f32 out_sum[64];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 8; ++t_2) {
      out_sum[n_0_2 + 8 * t_2] = 0.0f;
    }
  }
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&x_copy[128 * x0_x1_0 + 16 * (t / 16) + (t % 16)], &x[49152 * t_0 + 3072 * x0_x1_0 + 384 * (t / 16) + (t % 16)], (128 * t_0 + 8 * x0_x1_0 + (t / 16)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[640 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4)], &w[24576 * n_0 + 12288 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
    }
  }
  copy_async_commit();
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&x_copy[128 * x0_x1_0 + 16 * (t / 16) + (t % 16) + 2048], &x[49152 * t_0 + 3072 * x0_x1_0 + 384 * (t / 16) + (t % 16) + 16], (128 * t_0 + 8 * x0_x1_0 + (t / 16)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[640 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4) + 1280], &w[24576 * n_0 + 12288 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16]);
    }
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 24) {
      #pragma unroll 4
      for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
        copy_async<4>(&x_copy[128 * x0_x1_0 + 16 * (t / 16) + 2048 * ((k_0 + 2) % 3) + (t % 16)], &x[49152 * t_0 + 16 * k_0 + 3072 * x0_x1_0 + 384 * (t / 16) + (t % 16) + 32], (128 * t_0 + 8 * x0_x1_0 + (t / 16)) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
        {
          const Index v = 0;
          copy_async<16>(&w_copy[640 * x0_x1_0 + v + 20 * (t / 4) + 1280 * ((k_0 + 2) % 3) + 4 * (t % 4)], &w[24576 * n_0 + 16 * k_0 + 12288 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32]);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 8; ++t_2) {
          out_sum[n_0_2 + 8 * t_2] += x_copy[k_1 + 16 * t_2 + 128 * t_8 + 2048 * (k_0 % 3)] * w_copy[k_1 + 160 * n_0_2 + 20 * t_mod_8 + 1280 * (k_0 % 3)];
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 8; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 8; ++t_3) {
      if ((128 * t_0 + t_3 + 8 * t_8) < T) {
        out[147456 * t_0 + 64 * n_0 + 8 * n_1 + 1152 * t_3 + 9216 * t_8 + t_mod_8] = out_sum[n_1 + 8 * t_3] + b[64 * n_0 + 8 * n_1 + t_mod_8];
      }
    }
  }
}
