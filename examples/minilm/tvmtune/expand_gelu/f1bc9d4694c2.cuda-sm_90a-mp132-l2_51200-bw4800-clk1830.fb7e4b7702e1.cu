#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) expand_gelu_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 1536);
  const Index t_0 = Index(blockIdx.x) / 96;
  const Index n_0 = Index(blockIdx.x) % 96;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 h_sum;
  h_sum = 0.0f;
  if (t < 32) {
    {
      const Index v = 0;
      copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4)], &x[3072 * t_0 + v + 384 * (t / 4) + 4 * (t % 4)], (8 * t_0 + (t / 4)) < T);
    }
  }
  if (t < 64) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4)], &w[6144 * n_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
    }
  }
  copy_async_commit();
  if (t < 32) {
    {
      const Index v = 0;
      copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4) + 128], &x[3072 * t_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16], (8 * t_0 + (t / 4)) < T);
    }
  }
  if (t < 64) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4) + 320], &w[6144 * n_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16]);
    }
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 24) {
      if (t < 32) {
        {
          const Index v = 0;
          copy_async<16>(&x_copy[v + 16 * (t / 4) + 128 * ((k_0 + 2) % 3) + 4 * (t % 4)], &x[3072 * t_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32], (8 * t_0 + (t / 4)) < T);
        }
      }
      if (t < 64) {
        {
          const Index v = 0;
          copy_async<16>(&w_copy[v + 20 * (t / 4) + 320 * ((k_0 + 2) % 3) + 4 * (t % 4)], &w[6144 * n_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32]);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      h_sum += x_copy[k_1 + 16 * t_16 + 128 * (k_0 % 3)] * w_copy[k_1 + 20 * t_mod_16 + 320 * (k_0 % 3)];
    }
  }
  if ((8 * t_0 + t_16) < T) {
    out[12288 * t_0 + 16 * n_0 + 1536 * t_16 + t_mod_16] = (0.5f * (h_sum + b[16 * n_0 + t_mod_16])) * (1.0f + tvmtune::erf((h_sum + b[16 * n_0 + t_mod_16]) * 0.70710677f));
  }
}
