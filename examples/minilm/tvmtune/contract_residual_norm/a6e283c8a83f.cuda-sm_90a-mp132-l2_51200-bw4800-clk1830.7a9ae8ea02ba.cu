#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) contract_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 8704);
  const Index t_0 = Index(blockIdx.x) / 24;
  const Index d_0 = Index(blockIdx.x) % 24;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 h_sum_acc[8];
  #pragma unroll
  for (Index d_0_2 = 0; d_0_2 < 4; ++d_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 2; ++t_2) {
      h_sum_acc[d_0_2 + 4 * t_2] = 0.0f;
    }
  }
  for (Index k_0 = 0; k_0 < 24; ++k_0) {
    __syncthreads();
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
      {
        const Index v = 0;
        Vec<f32, 4> x_v{};
        if ((32 * t_0 + 4 * x0_x1_0 + (t / 16)) < T) x_v = load_constant<Vec<f32, 4>>(&x[49152 * t_0 + 64 * k_0 + 6144 * x0_x1_0 + v + 1536 * (t / 16) + 4 * (t % 16)]);
        Vec<f32, 4> x_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          x_copy_v[lane] = ((32 * t_0 + 4 * x0_x1_0 + (t / 16)) < T) ? x_v[lane] : 0.0f;
        }
        store(&x_copy[272 * x0_x1_0 + v + 68 * (t / 16) + 4 * (t % 16)], x_copy_v);
      }
    }
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 4; ++x0_x1_0) {
      {
        const Index v = 0;
        const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[24576 * d_0 + 64 * k_0 + 6144 * x0_x1_0 + v + 1536 * (t / 16) + 4 * (t % 16)]);
        Vec<f32, 4> w_copy_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          w_copy_v[lane] = w_v[lane];
        }
        store(&w_copy[272 * x0_x1_0 + v + 68 * (t / 16) + 4 * (t % 16)], w_copy_v);
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 64; ++k_1) {
      #pragma unroll
      for (Index d_0_2 = 0; d_0_2 < 4; ++d_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 2; ++t_2) {
          h_sum_acc[d_0_2 + 4 * t_2] += x_copy[k_1 + 68 * t_2 + 136 * t_4] * w_copy[k_1 + 272 * d_0_2 + 68 * t_mod_4];
        }
      }
    }
  }
  #pragma unroll
  for (Index d_1 = 0; d_1 < 4; ++d_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 2; ++t_3) {
      if ((32 * t_0 + t_3 + 2 * t_4) < T) {
        h_sum[12288 * t_0 + 16 * d_0 + 4 * d_1 + 384 * t_3 + 768 * t_4 + t_mod_4] = h_sum_acc[d_1 + 4 * t_3];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(32) contract_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, const f32* __restrict__ h_sum, f32* __restrict__ out) {
  const Index t_0 = Index(blockIdx.x);
  const Index t = Index(threadIdx.x);
  f32 h[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part16;
  f32 variance_sum_part17;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 2> h_sum_v = load<Vec<f32, 2>>(&h_sum[384 * t_0 + 64 * d_0 + v + 2 * t]);
      const Vec<f32, 2> b_v = load_constant<Vec<f32, 2>>(&b[64 * d_0 + v + 2 * t]);
      const Vec<f32, 2> residual_v = load_constant<Vec<f32, 2>>(&residual[384 * t_0 + 64 * d_0 + v + 2 * t]);
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        h[2 * d_0 + (v + lane)] = (h_sum_v[lane] + b_v[lane]) + residual_v[lane];
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part16 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      center_sum_part16 += h[2 * d_0 + d_2];
    }
  }
  center_sum_part16 = warp_reduce<Sum, 32>(center_sum_part16);
  center_sum += center_sum_part16;
  center = center_sum / 384.0f;
  variance_sum = 0.0f;
  variance_sum_part17 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      variance_sum_part17 += (h[2 * d_0 + d_2] - center) * (h[2 * d_0 + d_2] - center);
    }
  }
  variance_sum_part17 = warp_reduce<Sum, 32>(variance_sum_part17);
  variance_sum += variance_sum_part17;
  variance = variance_sum / 384.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 2> gamma_v = load_constant<Vec<f32, 2>>(&gamma[64 * d_0 + v + 2 * t]);
      const Vec<f32, 2> beta_v = load_constant<Vec<f32, 2>>(&beta[64 * d_0 + v + 2 * t]);
      Vec<f32, 2> out_v;
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        out_v[lane] = (((h[2 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
      }
      store(&out[384 * t_0 + 64 * d_0 + v + 2 * t], out_v);
    }
  }
}
