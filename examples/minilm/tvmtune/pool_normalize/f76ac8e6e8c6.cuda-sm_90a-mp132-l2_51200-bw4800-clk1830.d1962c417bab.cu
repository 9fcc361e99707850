#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128) pool_normalize_0(const f32* __restrict__ x, const i32* __restrict__ lengths, f32* __restrict__ out, Index B, Index S) {
  const Index b_0 = Index(blockIdx.x);
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 total[12];
  f32 center[12];
  f32 square;
  f32 square_part6;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      total[4 * d_0 + d_2] = 0.0f;
    }
    for (Index s = 0; s < S; ++s) {
      #pragma unroll
      for (Index d_2 = 0; d_2 < 4; ++d_2) {
        if ((4 * b_0 + t_32) < B) {
          total[4 * d_0 + d_2] += (cast<i32>(i64(s)) < lengths[4 * b_0 + t_32]) ? x[1536 * S * b_0 + 384 * S * t_32 + 128 * d_0 + 384 * s + d_2 + 4 * t_mod_32] : 0.0f;
        }
      }
    }
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      center[4 * d_0 + d_2] = ((4 * b_0 + t_32) < B) ? (total[4 * d_0 + d_2] / cast<f32>(lengths[4 * b_0 + t_32])) : 0.0f;
    }
  }
  square = 0.0f;
  square_part6 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      square_part6 += center[4 * d_0 + d_2] * center[4 * d_0 + d_2];
    }
  }
  square_part6 = warp_reduce<Sum, 32>(square_part6);
  if ((4 * b_0 + t_32) < B) {
    square += square_part6;
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
