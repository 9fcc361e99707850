#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) contract_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum_part, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 16896);
  const Index t_0 = Index(blockIdx.x) / 576;
  const Index d_0 = Index(blockIdx.x) / 24 % 24;
  const Index k_0 = Index(blockIdx.x) % 24;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 h_sum_part_acc[8];
  #pragma unroll
  for (Index t_0_2 = 0; t_0_2 < 2; ++t_0_2) {
    #pragma unroll
    for (Index d_0_2 = 0; d_0_2 < 2; ++d_0_2) {
      #pragma unroll
      for (Index d_2 = 0; d_2 < 2; ++d_2) {
        h_sum_part_acc[4 * t_0_2 + 2 * d_0_2 + d_2] = 0.0f;
      }
    }
  }
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&x_copy[2 * x0_x1_0 + (t / 32) + 33 * (t % 32)], &x[49152 * t_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32)], (32 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[72 * x0_x1_0 + 36 * (t / 32) + (t % 32)], &w[24576 * d_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32)]);
  }
  copy_async_commit();
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&x_copy[2 * x0_x1_0 + (t / 32) + 33 * (t % 32) + 1056], &x[49152 * t_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 32], (32 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[72 * x0_x1_0 + 36 * (t / 32) + (t % 32) + 576], &w[24576 * d_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 32]);
  }
  copy_async_commit();
  if (2 < 2) {
    #pragma unroll 4
    for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
      copy_async<4>(&x_copy[2 * x0_x1_0 + (t / 32) + 33 * (t % 32) + 2112], &x[49152 * t_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 64], (32 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
    }
    #pragma unroll
    for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
      copy_async<4>(&w_copy[72 * x0_x1_0 + 36 * (t / 32) + (t % 32) + 1152], &w[24576 * d_0 + 64 * k_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 64]);
    }
  }
  copy_async_commit();
  for (Index k_1_0 = 0; k_1_0 < 2; ++k_1_0) {
    copy_async_wait<2>();
    __syncthreads();
    if ((k_1_0 + 3) < 2) {
      #pragma unroll 4
      for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
        copy_async<4>(&x_copy[2 * x0_x1_0 + (t / 32) + 1056 * ((k_1_0 + 3) % 4) + 33 * (t % 32)], &x[49152 * t_0 + 64 * k_0 + 32 * k_1_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 96], (32 * t_0 + 2 * x0_x1_0 + (t / 32)) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&w_copy[72 * x0_x1_0 + 36 * (t / 32) + 576 * ((k_1_0 + 3) % 4) + (t % 32)], &w[24576 * d_0 + 64 * k_0 + 32 * k_1_0 + 3072 * x0_x1_0 + 1536 * (t / 32) + (t % 32) + 96]);
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1_1 = 0; k_1_1 < 32; ++k_1_1) {
      #pragma unroll
      for (Index t_0_2 = 0; t_0_2 < 2; ++t_0_2) {
        #pragma unroll
        for (Index d_0_2 = 0; d_0_2 < 2; ++d_0_2) {
          #pragma unroll
          for (Index d_2 = 0; d_2 < 2; ++d_2) {
            h_sum_part_acc[4 * t_0_2 + 2 * d_0_2 + d_2] += x_copy[33 * k_1_1 + 16 * t_0_2 + t_4 + 1056 * (k_1_0 % 4)] * w_copy[k_1_1 + 288 * d_0_2 + 36 * d_2 + 72 * t_mod_4 + 576 * (k_1_0 % 4)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index t_1 = 0; t_1 < 2; ++t_1) {
    #pragma unroll
    for (Index d_1 = 0; d_1 < 2; ++d_1) {
      {
        const Index v = 0;
        if ((32 * t_0 + 16 * t_1 + t_4) < T) {
          Vec<f32, 2> h_sum_part_v;
          #pragma unroll
          for (int lane = 0; lane < 2; ++lane) {
            h_sum_part_v[lane] = h_sum_part_acc[4 * t_1 + 2 * d_1 + (v + lane)];
          }
          store(&h_sum_part[384 * T * k_0 + 12288 * t_0 + 16 * d_0 + 6144 * t_1 + 8 * d_1 + v + 384 * t_4 + 2 * t_mod_4], h_sum_part_v);
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(64) contract_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, const f32* __restrict__ h_sum_part, Index T) {
  const Index t_0 = Index(blockIdx.x);
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
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
        if ((2 * t_0 + t_32) < T) {
          const Vec<f32, 4> h_sum_part_v = load<Vec<f32, 4>>(&h_sum_part[384 * T * k_0 + 768 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) {
            h_sum[4 * d_0 + (v + lane)] += h_sum_part_v[lane];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 4> b_v{};
      if ((2 * t_0 + t_32) < T) b_v = load_constant<Vec<f32, 4>>(&b[128 * d_0 + v + 4 * t_mod_32]);
      Vec<f32, 4> residual_v{};
      if ((2 * t_0 + t_32) < T) residual_v = load_constant<Vec<f32, 4>>(&residual[768 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h[4 * d_0 + (v + lane)] = ((2 * t_0 + t_32) < T) ? ((h_sum[4 * d_0 + (v + lane)] + b_v[lane]) + residual_v[lane]) : 0.0f;
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
  if ((2 * t_0 + t_32) < T) {
    center_sum += center_sum_part17;
  }
  center = ((2 * t_0 + t_32) < T) ? (center_sum / 384.0f) : 0.0f;
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
  if ((2 * t_0 + t_32) < T) {
    variance_sum += variance_sum_part18;
  }
  variance = ((2 * t_0 + t_32) < T) ? (variance_sum / 384.0f) : 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      if ((2 * t_0 + t_32) < T) {
        const Vec<f32, 4> gamma_v = load_constant<Vec<f32, 4>>(&gamma[128 * d_0 + v + 4 * t_mod_32]);
        const Vec<f32, 4> beta_v = load_constant<Vec<f32, 4>>(&beta[128 * d_0 + v + 4 * t_mod_32]);
        Vec<f32, 4> out_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          out_v[lane] = (((h[4 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
        }
        store(&out[768 * t_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32], out_v);
      }
    }
  }
}
