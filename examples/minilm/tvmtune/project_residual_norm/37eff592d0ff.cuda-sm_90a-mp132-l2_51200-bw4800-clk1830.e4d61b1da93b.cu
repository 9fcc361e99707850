#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) project_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 1536);
  const Index t_0 = Index(blockIdx.x) / 24;
  const Index d_0 = Index(blockIdx.x) % 24;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 h_sum_acc;
  h_sum_acc = 0.0f;
  if (t < 32) {
    {
      const Index v = 0;
      copy_async<16>(&x_copy[v + 16 * (t / 4) + 4 * (t % 4)], &x[3072 * t_0 + v + 384 * (t / 4) + 4 * (t % 4)], (8 * t_0 + (t / 4)) < T);
    }
  }
  if (t < 64) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4)], &w[6144 * d_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
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
      copy_async<16>(&w_copy[v + 20 * (t / 4) + 4 * (t % 4) + 320], &w[6144 * d_0 + v + 384 * (t / 4) + 4 * (t % 4) + 16]);
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
          copy_async<16>(&w_copy[v + 20 * (t / 4) + 320 * ((k_0 + 2) % 3) + 4 * (t % 4)], &w[6144 * d_0 + 16 * k_0 + v + 384 * (t / 4) + 4 * (t % 4) + 32]);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      h_sum_acc += x_copy[k_1 + 16 * t_16 + 128 * (k_0 % 3)] * w_copy[k_1 + 20 * t_mod_16 + 320 * (k_0 % 3)];
    }
  }
  if ((8 * t_0 + t_16) < T) {
    h_sum[3072 * t_0 + 16 * d_0 + 384 * t_16 + t_mod_16] = h_sum_acc;
  }
}

extern "C" __global__ void __launch_bounds__(128) project_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, const f32* __restrict__ h_sum, f32* __restrict__ out, Index T) {
  const Index t_0 = Index(blockIdx.x);
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 h[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part16;
  f32 variance_sum_part17;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 4> h_sum_v{};
      if ((4 * t_0 + t_32) < T) h_sum_v = load<Vec<f32, 4>>(&h_sum[1536 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
      Vec<f32, 4> b_v{};
      if ((4 * t_0 + t_32) < T) b_v = load_constant<Vec<f32, 4>>(&b[128 * d_0 + v + 4 * t_mod_32]);
      Vec<f32, 4> residual_v{};
      if ((4 * t_0 + t_32) < T) residual_v = load_constant<Vec<f32, 4>>(&residual[1536 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h[4 * d_0 + (v + lane)] = ((4 * t_0 + t_32) < T) ? ((h_sum_v[lane] + b_v[lane]) + residual_v[lane]) : 0.0f;
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part16 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      center_sum_part16 += h[4 * d_0 + d_2];
    }
  }
  center_sum_part16 = warp_reduce<Sum, 32>(center_sum_part16);
  if ((4 * t_0 + t_32) < T) {
    center_sum += center_sum_part16;
  }
  center = ((4 * t_0 + t_32) < T) ? (center_sum / 384.0f) : 0.0f;
  variance_sum = 0.0f;
  variance_sum_part17 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      variance_sum_part17 += (h[4 * d_0 + d_2] - center) * (h[4 * d_0 + d_2] - center);
    }
  }
  variance_sum_part17 = warp_reduce<Sum, 32>(variance_sum_part17);
  if ((4 * t_0 + t_32) < T) {
    variance_sum += variance_sum_part17;
  }
  variance = ((4 * t_0 + t_32) < T) ? (variance_sum / 384.0f) : 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      if ((4 * t_0 + t_32) < T) {
        const Vec<f32, 4> gamma_v = load_constant<Vec<f32, 4>>(&gamma[128 * d_0 + v + 4 * t_mod_32]);
        const Vec<f32, 4> beta_v = load_constant<Vec<f32, 4>>(&beta[128 * d_0 + v + 4 * t_mod_32]);
        Vec<f32, 4> out_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          out_v[lane] = (((h[4 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
        }
        store(&out[1536 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32], out_v);
      }
    }
  }
}
