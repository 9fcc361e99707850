#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) project_qkv_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 13056);
  const Index t_0 = Index(blockIdx.x) / 288;
  const Index n_0 = Index(blockIdx.x) % 288;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 out_sum;
  out_sum = 0.0f;
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<8>(&x_copy[136 * x0_x1_0 + v + 68 * (t / 32) + 2 * (t % 32)], &x[6144 * t_0 + 768 * x0_x1_0 + v + 384 * (t / 32) + 2 * (t % 32)], (16 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
    }
  }
  {
    const Index v = 0;
    copy_async<16>(&w_copy[v + 68 * (t / 16) + 4 * (t % 16)], &w[1536 * n_0 + v + 384 * (t / 16) + 4 * (t % 16)]);
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<8>(&x_copy[136 * x0_x1_0 + v + 68 * (t / 32) + 2 * (t % 32) + 1088], &x[6144 * t_0 + 768 * x0_x1_0 + v + 384 * (t / 32) + 2 * (t % 32) + 64], (16 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
    }
  }
  {
    const Index v = 0;
    copy_async<16>(&w_copy[v + 68 * (t / 16) + 4 * (t % 16) + 272], &w[1536 * n_0 + v + 384 * (t / 16) + 4 * (t % 16) + 64]);
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 6; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 6) {
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        {
          const Index v = 0;
          copy_async<8>(&x_copy[136 * x0_x1_0 + v + 68 * (t / 32) + 1088 * ((k_0 + 2) % 3) + 2 * (t % 32)], &x[6144 * t_0 + 64 * k_0 + 768 * x0_x1_0 + v + 384 * (t / 32) + 2 * (t % 32) + 128], (16 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
        }
      }
      {
        const Index v = 0;
        copy_async<16>(&w_copy[v + 68 * (t / 16) + 272 * ((k_0 + 2) % 3) + 4 * (t % 16)], &w[1536 * n_0 + 64 * k_0 + v + 384 * (t / 16) + 4 * (t % 16) + 128]);
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 64; ++k_1) {
      out_sum += x_copy[k_1 + 68 * t_4 + 1088 * (k_0 % 3)] * w_copy[k_1 + 68 * t_mod_4 + 272 * (k_0 % 3)];
    }
  }
  if ((16 * t_0 + t_4) < T) {
    out[18432 * t_0 + 4 * n_0 + 1152 * t_4 + t_mod_4] = out_sum + b[4 * n_0 + t_mod_4];
  }
}
