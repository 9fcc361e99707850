#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(512, 2) pool_normalize_0(const f32* __restrict__ x, const i32* __restrict__ lengths, f32* __restrict__ total, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const total_acc_part = reinterpret_cast<f32*>(shared + 0);
  const Index b = Index(blockIdx.x) / 6;
  const Index d_0 = Index(blockIdx.x) % 6;
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t = Index(threadIdx.x);
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 total_acc[2];
  f32 total_acc_part_acc[2];
  #pragma unroll
  for (Index d = 0; d < 2; ++d) {
    total_acc_part_acc[d] = 0.0f;
  }
  for (Index s_0 = 0; s_0 < ((S + 15) / 16); ++s_0) {
    #pragma unroll
    for (Index d = 0; d < 2; ++d) {
      total_acc_part_acc[d] += ((16 * s_0 + t_32) < S) ? ((cast<i32>(i64(16 * s_0 + t_32)) < lengths[b]) ? x[384 * S * b + 64 * d_0 + 6144 * s_0 + d + 384 * t_32 + 2 * t_mod_32] : 0.0f) : 0.0f;
    }
  }
  {
    const Index v = 0;
    Vec<f32, 2> total_acc_part_v;
    #pragma unroll
    for (int lane = 0; lane < 2; ++lane) {
      total_acc_part_v[lane] = total_acc_part_acc[(v + lane)];
    }
    store(&total_acc_part[v + 64 * t_32 + 2 * t_mod_32], total_acc_part_v);
  }
  __syncthreads();
  if (t < 32) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      total_acc[d_2] = 0.0f;
    }
    #pragma unroll
    for (Index s_1 = 0; s_1 < 16; ++s_1) {
      {
        const Index v = 0;
        const Vec<f32, 2> total_acc_part_v = load<Vec<f32, 2>>(&total_acc_part[64 * s_1 + v + 2 * t]);
        #pragma unroll
        for (int lane = 0; lane < 2; ++lane) {
          total_acc[(v + lane)] += total_acc_part_v[lane];
        }
      }
    }
  }
  if (t < 32) {
    {
      const Index v = 0;
      Vec<f32, 2> total_v;
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        total_v[lane] = total_acc[(v + lane)];
      }
      store(&total[384 * b + 64 * d_0 + v + 2 * t], total_v);
    }
  }
}

extern "C" __global__ void __launch_bounds__(128) pool_normalize_1(const i32* __restrict__ lengths, const f32* __restrict__ total, f32* __restrict__ out, Index B) {
  const Index b_0 = Index(blockIdx.x);
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 center[12];
  f32 square;
  f32 square_part9;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 4> total_v{};
      if ((4 * b_0 + t_32) < B) total_v = load<Vec<f32, 4>>(&total[1536 * b_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        center[4 * d_0 + (v + lane)] = ((4 * b_0 + t_32) < B) ? (total_v[lane] / cast<f32>(lengths[4 * b_0 + t_32])) : 0.0f;
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
  if ((4 * b_0 + t_32) < B) {
    square += square_part9;
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      if ((4 * b_0 + t_32) < B) {
        Vec<f32, 4> out_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          out_v[lane] = center[4 * d_0 + (v + lane)] / tvmtune::max(tvmtune::sqrt(square), 1e-12f);
        }
        store(&out[1536 * b_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32], out_v);
      }
    }
  }
}
