#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) pool_normalize_0(const f32* __restrict__ x, const i32* __restrict__ lengths, f32* __restrict__ total, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const total_acc_part = reinterpret_cast<f32*>(shared + 0);
  const Index b = Index(blockIdx.x) / 48;
  const Index d_0 = Index(blockIdx.x) % 48;
  const Index t_mod_8 = Index(threadIdx.x) % 8;
  const Index t = Index(threadIdx.x);
  const Index t_8 = Index(threadIdx.x) / 8;
  f32 total_acc;
  f32 total_acc_part_acc;
  total_acc_part_acc = 0.0f;
  for (Index s_0 = 0; s_0 < ((S + 15) / 16); ++s_0) {
    total_acc_part_acc += ((16 * s_0 + t_8) < S) ? ((cast<i32>(i64(16 * s_0 + t_8)) < lengths[b]) ? x[384 * S * b + 8 * d_0 + 6144 * s_0 + 384 * t_8 + t_mod_8] : 0.0f) : 0.0f;
  }
  total_acc_part[8 * t_8 + t_mod_8] = total_acc_part_acc;
  __syncthreads();
  if (t < 8) {
    total_acc = 0.0f;
    #pragma unroll
    for (Index s_1 = 0; s_1 < 16; ++s_1) {
      total_acc += total_acc_part[8 * s_1 + t];
    }
  }
  if (t < 8) {
    total[384 * b + 8 * d_0 + t] = total_acc;
  }
}

extern "C" __global__ void __launch_bounds__(32) pool_normalize_1(const i32* __restrict__ lengths, const f32* __restrict__ total, f32* __restrict__ out) {
  const Index b_0 = Index(blockIdx.x);
  const Index t = Index(threadIdx.x);
  f32 center[12];
  f32 square;
  f32 square_part9;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> total_v = load<Vec<f32, 4>>(&total[384 * b_0 + 128 * d_0 + v + 4 * t]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        center[4 * d_0 + (v + lane)] = total_v[lane] / cast<f32>(lengths[b_0]);
      }
    }
  }
  square = 0.0f;
  square_part9 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      square_part9 += center[4 * d_0 + d_2] * center[4 * d_0 + d_2];
    }
  }
  square_part9 = warp_reduce<Sum, 32>(square_part9);
  square += square_part9;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 4> out_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        out_v[lane] = center[4 * d_0 + (v + lane)] / tvmtune::max(tvmtune::sqrt(square), 1e-12f);
      }
      store(&out[384 * b_0 + 128 * d_0 + v + 4 * t], out_v);
    }
  }
}
