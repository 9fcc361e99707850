#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) project_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 4096);
  const Index t_0 = Index(blockIdx.x) / 3;
  const Index d_0 = Index(blockIdx.x) % 3;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 h_sum_acc[64];
  #pragma unroll
  for (Index d_0_2 = 0; d_0_2 < 8; ++d_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 8; ++t_2) {
      h_sum_acc[d_0_2 + 8 * t_2] = 0.0f;
    }
  }
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    __syncthreads();
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
      {
        const Index v = 0;
        Vec<f32, 4> x_v{};
        if ((64 * t_0 + 32 * x0_x1_0 + (t / 4)) < T) x_v = load_constant<Vec<f32, 4>>(&x[24576 * t_0 + 16 * k_0 + 12288 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
        Vec<f32, 4> x_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          x_copy_v[lane] = ((64 * t_0 + 32 * x0_x1_0 + (t / 4)) < T) ? x_v[lane] : 0.0f;
        }
        store(&x_copy[512 * x0_x1_0 + v + 16 * (t / 4) + 4 * (t % 4)], x_copy_v);
      }
    }
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 4; ++x0_x1_0) {
      {
        const Index v = 0;
        const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[49152 * d_0 + 16 * k_0 + 12288 * x0_x1_0 + v + 384 * (t / 4) + 4 * (t % 4)]);
        Vec<f32, 4> w_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          w_copy_v[lane] = w_v[lane];
        }
        store(&w_copy[640 * x0_x1_0 + v + 20 * (t / 4) + 4 * (t % 4)], w_copy_v);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 16; ++k_1) {
      #pragma unroll
      for (Index d_0_2 = 0; d_0_2 < 8; ++d_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 8; ++t_2) {
          h_sum_acc[d_0_2 + 8 * t_2] += x_copy[k_1 + 16 * t_2 + 128 * t_16] * w_copy[k_1 + 320 * d_0_2 + 20 * t_mod_16];
        }
      }
    }
  }
  #pragma unroll
  for (Index d_1 = 0; d_1 < 8; ++d_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 8; ++t_3) {
      if ((64 * t_0 + t_3 + 8 * t_16) < T) {
        h_sum[24576 * t_0 + 128 * d_0 + 16 * d_1 + 384 * t_3 + 3072 * t_16 + t_mod_16] = h_sum_acc[d_1 + 8 * t_3];
      }
    }
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
