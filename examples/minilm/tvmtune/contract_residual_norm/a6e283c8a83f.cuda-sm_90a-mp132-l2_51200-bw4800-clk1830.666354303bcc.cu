#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) contract_residual_norm_0(const f32* __restrict__ x, const f32* __restrict__ w, f32* __restrict__ h_sum_part, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 6528);
  const Index t_0 = Index(blockIdx.x) / 72;
  const Index d_0 = Index(blockIdx.x) / 6 % 12;
  const Index k_0 = Index(blockIdx.x) % 6;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 h_sum_part_acc[16];
  #pragma unroll
  for (Index d_0_2 = 0; d_0_2 < 4; ++d_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 2; ++t_2) {
      #pragma unroll
      for (Index d_2 = 0; d_2 < 2; ++d_2) {
        h_sum_part_acc[2 * d_0_2 + 8 * t_2 + d_2] = 0.0f;
      }
    }
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[4 * x0_x1_0 + (t / 16) + 34 * (t % 16)], &x[49152 * t_0 + 256 * k_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16)], (32 * t_0 + 4 * x0_x1_0 + (t / 16)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[4 * x0_x1_0 + (t / 16) + 34 * (t % 16)], &w[49152 * d_0 + 256 * k_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16)]);
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&x_copy[4 * x0_x1_0 + (t / 16) + 34 * (t % 16) + 544], &x[49152 * t_0 + 256 * k_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16) + 16], (32 * t_0 + 4 * x0_x1_0 + (t / 16)) < T);
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
    copy_async<4>(&w_copy[4 * x0_x1_0 + (t / 16) + 34 * (t % 16) + 544], &w[49152 * d_0 + 256 * k_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16) + 16]);
  }
  copy_async_commit();
  for (Index k_1_0 = 0; k_1_0 < 16; ++k_1_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((k_1_0 + 2) < 16) {
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&x_copy[4 * x0_x1_0 + (t / 16) + 544 * ((k_1_0 + 2) % 3) + 34 * (t % 16)], &x[49152 * t_0 + 256 * k_0 + 16 * k_1_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16) + 32], (32 * t_0 + 4 * x0_x1_0 + (t / 16)) < T);
      }
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 8; ++x0_x1_0) {
        copy_async<4>(&w_copy[4 * x0_x1_0 + (t / 16) + 544 * ((k_1_0 + 2) % 3) + 34 * (t % 16)], &w[49152 * d_0 + 256 * k_0 + 16 * k_1_0 + 6144 * x0_x1_0 + 1536 * (t / 16) + (t % 16) + 32]);
      }
    }
    copy_async_commit();
    for (Index k_1_1 = 0; k_1_1 < 16; ++k_1_1) {
      #pragma unroll
      for (Index d_0_2 = 0; d_0_2 < 4; ++d_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 2; ++t_2) {
          #pragma unroll
          for (Index d_2 = 0; d_2 < 2; ++d_2) {
            h_sum_part_acc[2 * d_0_2 + 8 * t_2 + d_2] += x_copy[34 * k_1_1 + t_2 + 2 * t_4 + 544 * (k_1_0 % 3)] * w_copy[34 * k_1_1 + 8 * d_0_2 + d_2 + 2 * t_mod_4 + 544 * (k_1_0 % 3)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index d_1 = 0; d_1 < 4; ++d_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 2; ++t_3) {
      {
        const Index v = 0;
        if ((32 * t_0 + t_3 + 2 * t_4) < T) {
          Vec<f32, 2> h_sum_part_v;
          #pragma unroll
          for (int lane = 0; lane < 2; ++lane) {
            h_sum_part_v[lane] = h_sum_part_acc[2 * d_1 + 8 * t_3 + (v + lane)];
          }
          store(&h_sum_part[384 * T * k_0 + 12288 * t_0 + 32 * d_0 + 8 * d_1 + 384 * t_3 + v + 768 * t_4 + 2 * t_mod_4], h_sum_part_v);
        }
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) contract_residual_norm_1(const f32* __restrict__ b, const f32* __restrict__ residual, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, const f32* __restrict__ h_sum_part, Index T) {
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
  for (Index d_0 = 0; d_0 < 12; ++d_0) {
    h_sum[d_0] = 0.0f;
    for (Index k_0 = 0; k_0 < 6; ++k_0) {
      if ((4 * t_0 + t_32) < T) {
        h_sum[d_0] += h_sum_part[384 * T * k_0 + 1536 * t_0 + 32 * d_0 + 384 * t_32 + t_mod_32];
      }
    }
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 12; ++d_0) {
    h[d_0] = ((4 * t_0 + t_32) < T) ? ((h_sum[d_0] + b[32 * d_0 + t_mod_32]) + residual[1536 * t_0 + 32 * d_0 + 384 * t_32 + t_mod_32]) : 0.0f;
  }
  center_sum = 0.0f;
  center_sum_part17 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 12; ++d_0) {
    center_sum_part17 += h[d_0];
  }
  center_sum_part17 = warp_reduce<Sum, 32>(center_sum_part17);
  if ((4 * t_0 + t_32) < T) {
    center_sum += center_sum_part17;
  }
  center = ((4 * t_0 + t_32) < T) ? (center_sum / 384.0f) : 0.0f;
  variance_sum = 0.0f;
  variance_sum_part18 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 12; ++d_0) {
    variance_sum_part18 += (h[d_0] - center) * (h[d_0] - center);
  }
  variance_sum_part18 = warp_reduce<Sum, 32>(variance_sum_part18);
  if ((4 * t_0 + t_32) < T) {
    variance_sum += variance_sum_part18;
  }
  variance = ((4 * t_0 + t_32) < T) ? (variance_sum / 384.0f) : 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 12; ++d_0) {
    if ((4 * t_0 + t_32) < T) {
      out[1536 * t_0 + 32 * d_0 + 384 * t_32 + t_mod_32] = (((h[d_0] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma[32 * d_0 + t_mod_32]) + beta[32 * d_0 + t_mod_32];
    }
  }
}
