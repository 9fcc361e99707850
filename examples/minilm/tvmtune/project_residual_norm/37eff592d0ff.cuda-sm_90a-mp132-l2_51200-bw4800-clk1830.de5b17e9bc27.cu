#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32) project_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum) {
  const Index t = 0;
  const Index d_0 = Index(blockIdx.x) % 384;
  const Index t_2 = Index(threadIdx.x);
  f32 h_sum_acc;
  f32 h_sum_acc_part14;
  h_sum_acc = 0.0f;
  h_sum_acc_part14 = 0.0f;
  for (Index k_0 = 0; k_0 < 3; ++k_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> x_v = load_constant<Vec<f32, 4>>(&x[384 * t + 128 * k_0 + v + 4 * t_2]);
      const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[384 * d_0 + 128 * k_0 + v + 4 * t_2]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h_sum_acc_part14 += x_v[lane] * w_v[lane];
      }
    }
  }
  h_sum_acc_part14 = warp_reduce<Sum, 32>(h_sum_acc_part14);
  h_sum_acc += h_sum_acc_part14;
  if (t_2 < 1) {
    h_sum[384 * t + d_0] = h_sum_acc;
  }
}

extern "C" __global__ void __launch_bounds__(32) project_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, const f32* __restrict__ h_sum, f32* __restrict__ out) {
  const Index t_0 = 0;
  const Index t = Index(threadIdx.x);
  f32 h[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part15;
  f32 variance_sum_part16;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> h_sum_v = load<Vec<f32, 4>>(&h_sum[384 * t_0 + 128 * d_0 + v + 4 * t]);
      const Vec<f32, 4> b_v = load_constant<Vec<f32, 4>>(&b[128 * d_0 + v + 4 * t]);
      const Vec<f32, 4> residual_v = load_constant<Vec<f32, 4>>(&residual[384 * t_0 + 128 * d_0 + v + 4 * t]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h[4 * d_0 + (v + lane)] = (h_sum_v[lane] + b_v[lane]) + residual_v[lane];
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part15 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      center_sum_part15 += h[4 * d_0 + d_2];
    }
  }
  center_sum_part15 = warp_reduce<Sum, 32>(center_sum_part15);
  center_sum += center_sum_part15;
  center = center_sum / 384.0f;
  variance_sum = 0.0f;
  variance_sum_part16 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      variance_sum_part16 += (h[4 * d_0 + d_2] - center) * (h[4 * d_0 + d_2] - center);
    }
  }
  variance_sum_part16 = warp_reduce<Sum, 32>(variance_sum_part16);
  variance_sum += variance_sum_part16;
  variance = variance_sum / 384.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> gamma_v = load_constant<Vec<f32, 4>>(&gamma[128 * d_0 + v + 4 * t]);
      const Vec<f32, 4> beta_v = load_constant<Vec<f32, 4>>(&beta[128 * d_0 + v + 4 * t]);
      Vec<f32, 4> out_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        out_v[lane] = (((h[4 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
      }
      store(&out[384 * t_0 + 128 * d_0 + v + 4 * t], out_v);
    }
  }
}
