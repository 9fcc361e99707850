#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(256, 2) project_qkv_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 6144);
  const Index t_0 = Index(blockIdx.x) / 36;
  const Index n_0 = Index(blockIdx.x) % 36;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 out_sum[4];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 2; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 2; ++t_2) {
      out_sum[n_0_2 + 2 * t_2] = 0.0f;
    }
  }
  if (t < 128) {
    {
      const Index v = 0;
      copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4)], &x[12288 * t_0 + v + 384 * (t / 4) + 4 * (t % 4)], (32 * t_0 + (t / 4)) < T);
    }
  }
  if (t < 128) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4)], &w[12288 * n_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
    }
  }
  copy_async_commit();
  if (t < 128) {
    {
      const Index v = 0;
      copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4) + 512], &x[12288 * t_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16], (32 * t_0 + (t / 4)) < T);
    }
  }
  if (t < 128) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4) + 640], &w[12288 * n_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16]);
    }
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 24) {
      if (t < 128) {
        {
          const Index v = 0;
          copy_async<16>(&x_copy[v + 16 * (t / 4) + 512 * ((k_0 + 2) % 3) + 4 * (t % 4)], &x[12288 * t_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32], (32 * t_0 + (t / 4)) < T);
        }
      }
      if (t < 128) {
        {
          const Index v = 0;
          copy_async<16>(&w_copy[v + 20 * (t / 4) + 640 * ((k_0 + 2) % 3) + 4 * (t % 4)], &w[12288 * n_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32]);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 2; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 2; ++t_2) {
          out_sum[n_0_2 + 2 * t_2] += x_copy[k_1 + 16 * t_2 + 32 * t_16 + 512 * (k_0 % 3)] * w_copy[k_1 + 320 * n_0_2 + 20 * t_mod_16 + 640 * (k_0 % 3)];
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 2; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 2; ++t_3) {
      if ((32 * t_0 + t_3 + 2 * t_16) < T) {
        out[36864 * t_0 + 32 * n_0 + 16 * n_1 + 1152 * t_3 + 2304 * t_16 + t_mod_16] = out_sum[n_1 + 2 * t_3] + b[32 * n_0 + 16 * n_1 + t_mod_16];
      }
    }
  }
}
