#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32, 2) contract_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum_part, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 6144);
  const Index t_0 = Index(blockIdx.x) / 1152;
  const Index d_0 = Index(blockIdx.x) / 24 % 48;
  const Index k_0 = Index(blockIdx.x) % 24;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 h_sum_part_acc[2];
  #pragma unroll
  for (Index d_2 = 0; d_2 < 2; ++d_2) {
    h_sum_part_acc[d_2] = 0.0f;
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[x0_x1_0 + 12 * t], &x[12288 * t_0 + 64 * k_0 + 1536 * x0_x1_0 + t], (8 * t_0 + x0_x1_0) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[36 * x0_x1_0 + t], &w[12288 * d_0 + 64 * k_0 + 1536 * x0_x1_0 + t]);
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[x0_x1_0 + 12 * t + 384], &x[12288 * t_0 + 64 * k_0 + 1536 * x0_x1_0 + t + 32], (8 * t_0 + x0_x1_0) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[36 * x0_x1_0 + t + 288], &w[12288 * d_0 + 64 * k_0 + 1536 * x0_x1_0 + t + 32]);
  }
  copy_async_commit();
  if (2 < 2) {
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
      copy_async<4>(&x_copy[x0_x1_0 + 12 * t + 768], &x[12288 * t_0 + 64 * k_0 + 1536 * x0_x1_0 + t + 64], (8 * t_0 + x0_x1_0) < T);
    }
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
      copy_async<4>(&w_copy[36 * x0_x1_0 + t + 576], &w[12288 * d_0 + 64 * k_0 + 1536 * x0_x1_0 + t + 64]);
    }
  }
  copy_async_commit();
  for (Index k_1_0 = 0; k_1_0 < 2; ++k_1_0) {
    copy_async_wait<2>();
    __syncwarp();
    if ((k_1_0 + 3) < 2) {
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&x_copy[x0_x1_0 + 12 * t + 384 * ((k_1_0 + 3) % 4)], &x[12288 * t_0 + 64 * k_0 + 32 * k_1_0 + 1536 * x0_x1_0 + t + 96], (8 * t_0 + x0_x1_0) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&w_copy[36 * x0_x1_0 + t + 288 * ((k_1_0 + 3) % 4)], &w[12288 * d_0 + 64 * k_0 + 32 * k_1_0 + 1536 * x0_x1_0 + t + 96]);
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1_1 = 0; k_1_1 < 32; ++k_1_1) {
      #pragma unroll
      for (Index d_2 = 0; d_2 < 2; ++d_2) {
        h_sum_part_acc[d_2] += x_copy[12 * k_1_1 + t_4 + 384 * (k_1_0 % 4)] * w_copy[k_1_1 + 36 * d_2 + 72 * t_mod_4 + 288 * (k_1_0 % 4)];
      }
    }
  }
  {
    const Index v = 0;
    if ((8 * t_0 + t_4) < T) {
      Vec<f32, 2> h_sum_part_v;
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        h_sum_part_v[lane] = h_sum_part_acc[(v + lane)];
      }
      store(&h_sum_part[384 * T * k_0 + 3072 * t_0 + 8 * d_0 + v + 384 * t_4 + 2 * t_mod_4], h_sum_part_v);
    }
  }
}

extern "C" __global__ void __launch_bounds__(32) contract_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, const f32* __restrict__ h_sum_part, Index T) {
  const Index t_0 = Index(blockIdx.x);
  const Index t = Index(threadIdx.x);
  f32 h_sum[12];
  f32 h[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part17;
  f32 variance_sum_part18;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      h_sum[4 * d_0 + d_2] = 0.0f;
    }
    for (Index k_0 = 0; k_0 < 24; ++k_0) {
      {
        const Index v = 0;
        const Vec<f32, 4> h_sum_part_v = load<Vec<f32, 4>>(&h_sum_part[384 * T * k_0 + 384 * t_0 + 128 * d_0 + v + 4 * t]);
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          h_sum[4 * d_0 + (v + lane)] += h_sum_part_v[lane];
        }
      }
    }
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> b_v = load_constant<Vec<f32, 4>>(&b[128 * d_0 + v + 4 * t]);
      const Vec<f32, 4> residual_v = load_constant<Vec<f32, 4>>(&residual[384 * t_0 + 128 * d_0 + v + 4 * t]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h[4 * d_0 + (v + lane)] = (h_sum[4 * d_0 + (v + lane)] + b_v[lane]) + residual_v[lane];
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part17 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      center_sum_part17 += h[4 * d_0 + d_2];
    }
  }
  center_sum_part17 = warp_reduce<Sum, 32>(center_sum_part17);
  center_sum += center_sum_part17;
  center = center_sum / 384.0f;
  variance_sum = 0.0f;
  variance_sum_part18 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      variance_sum_part18 += (h[4 * d_0 + d_2] - center) * (h[4 * d_0 + d_2] - center);
    }
  }
  variance_sum_part18 = warp_reduce<Sum, 32>(variance_sum_part18);
  variance_sum += variance_sum_part18;
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
