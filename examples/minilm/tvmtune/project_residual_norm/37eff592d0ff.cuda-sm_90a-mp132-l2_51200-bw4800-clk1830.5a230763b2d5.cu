#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) project_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 6144);
  const Index t_0 = Index(blockIdx.x) / 48;
  const Index d_0 = Index(blockIdx.x) % 48;
  const Index t_mod_8 = Index(threadIdx.x) % 8;
  const Index t = Index(threadIdx.x);
  const Index t_8 = Index(threadIdx.x) / 8;
  f32 h_sum_acc[2];
  if (t_8 < 4) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 2; ++t_2) {
      h_sum_acc[t_2] = 0.0f;
    }
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[64 * x0_x1_0 + t], &x[3072 * t_0 + 384 * x0_x1_0 + t], (8 * t_0 + x0_x1_0) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[272 * x0_x1_0 + v + 68 * (t / 16) + 4 * (t % 16)], &w[3072 * d_0 + 1536 * x0_x1_0 + v + 384 * (t / 16) + 4 * (t % 16)]);
    }
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[64 * x0_x1_0 + t + 512], &x[3072 * t_0 + 384 * x0_x1_0 + t + 64], (8 * t_0 + x0_x1_0) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      copy_async<16>(&w_copy[272 * x0_x1_0 + v + 68 * (t / 16) + 4 * (t % 16) + 544], &w[3072 * d_0 + 1536 * x0_x1_0 + v + 384 * (t / 16) + 4 * (t % 16) + 64]);
    }
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 6; ++k_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_0 + 2) < 6) {
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&x_copy[64 * x0_x1_0 + t + 512 * ((k_0 + 2) % 3)], &x[3072 * t_0 + 64 * k_0 + 384 * x0_x1_0 + t + 128], (8 * t_0 + x0_x1_0) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
        {
          const Index v = 0;
          copy_async<16>(&w_copy[272 * x0_x1_0 + v + 68 * (t / 16) + 544 * ((k_0 + 2) % 3) + 4 * (t % 16)], &w[3072 * d_0 + 64 * k_0 + 1536 * x0_x1_0 + v + 384 * (t / 16) + 4 * (t % 16) + 128]);
        }
      }
    }
    copy_async_commit();
    if (t_8 < 4) {
      #pragma unroll
      for (Index k_1 = 0; k_1 < 64; ++k_1) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 2; ++t_2) {
          h_sum_acc[t_2] += x_copy[k_1 + 64 * t_2 + 128 * t_8 + 512 * (k_0 % 3)] * w_copy[k_1 + 68 * t_mod_8 + 544 * (k_0 % 3)];
        }
      }
    }
  }
  if (t_8 < 4) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 2; ++t_3) {
      if ((8 * t_0 + t_3 + 2 * t_8) < T) {
        h_sum[3072 * t_0 + 8 * d_0 + 384 * t_3 + 768 * t_8 + t_mod_8] = h_sum_acc[t_3];
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(96, 2) project_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, const f32* __restrict__ h_sum, f32* __restrict__ out) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const Index t_0 = Index(blockIdx.x);
  const Index t = Index(threadIdx.x);
  f32 h[4];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part16;
  f32 variance_sum_part17;
  {
    const Index v = 0;
    const Vec<f32, 4> h_sum_v = load<Vec<f32, 4>>(&h_sum[384 * t_0 + v + 4 * t]);
    const Vec<f32, 4> b_v = load_constant<Vec<f32, 4>>(&b[v + 4 * t]);
    const Vec<f32, 4> residual_v = load_constant<Vec<f32, 4>>(&residual[384 * t_0 + v + 4 * t]);
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      h[(v + lane)] = (h_sum_v[lane] + b_v[lane]) + residual_v[lane];
    }
  }
  center_sum = 0.0f;
  center_sum_part16 = 0.0f;
  #pragma unroll
  for (Index d_2 = 0; d_2 < 4; ++d_2) {
    center_sum_part16 += h[d_2];
  }
  center_sum_part16 = group_reduce<Sum, 96>(center_sum_part16, reinterpret_cast<f32*>(shared + 0));
  center_sum += center_sum_part16;
  center = center_sum / 384.0f;
  variance_sum = 0.0f;
  variance_sum_part17 = 0.0f;
  #pragma unroll
  for (Index d_2 = 0; d_2 < 4; ++d_2) {
    variance_sum_part17 += (h[d_2] - center) * (h[d_2] - center);
  }
  variance_sum_part17 = group_reduce<Sum, 96>(variance_sum_part17, reinterpret_cast<f32*>(shared + 0));
  variance_sum += variance_sum_part17;
  variance = variance_sum / 384.0f;
  {
    const Index v = 0;
    const Vec<f32, 4> gamma_v = load_constant<Vec<f32, 4>>(&gamma[v + 4 * t]);
    const Vec<f32, 4> beta_v = load_constant<Vec<f32, 4>>(&beta[v + 4 * t]);
    Vec<f32, 4> out_v;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      out_v[lane] = (((h[(v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
    }
    store(&out[384 * t_0 + v + 4 * t], out_v);
  }
}
