#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32) pool_normalize_0(const f32* __restrict__ x, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  const Index b_0 = 0;
  const Index t = Index(threadIdx.x);
  f32 total[12];
  f32 center[12];
  f32 square;
  f32 square_part6;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      total[2 * d_0 + d_2] = 0.0f;
    }
    for (Index s = 0; s < S; ++s) {
      #pragma unroll
      for (Index d_2 = 0; d_2 < 2; ++d_2) {
        total[2 * d_0 + d_2] += (cast<i32>(i64(s)) < lengths[b_0]) ? x[384 * S * b_0 + 64 * d_0 + 384 * s + d_2 + 2 * t] : 0.0f;
      }
    }
  }
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      center[2 * d_0 + d_2] = total[2 * d_0 + d_2] / cast<f32>(lengths[b_0]);
    }
  }
  square = 0.0f;
  square_part6 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      square_part6 += center[2 * d_0 + d_2] * center[2 * d_0 + d_2];
    }
  }
  square_part6 = warp_reduce<Sum, 32>(square_part6);
  square += square_part6;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 2> out_v;
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        out_v[lane] = center[2 * d_0 + (v + lane)] / tvmtune::max(tvmtune::sqrt(square), 1e-12f);
      }
      store(&out[384 * b_0 + 64 * d_0 + v + 2 * t], out_v);
    }
  }
}
