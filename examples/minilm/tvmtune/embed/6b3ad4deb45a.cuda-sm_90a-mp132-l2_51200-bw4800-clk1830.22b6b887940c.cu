#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32) embed_0(const i32* __restrict__ ids, const f32* __restrict__ words, const f32* __restrict__ positions, const f32* __restrict__ segments, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, Index S) {
  const Index b = Index(blockIdx.x) / S;
  const Index s_0 = Index(blockIdx.x) % S;
  const Index t = Index(threadIdx.x);
  f32 x[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part12;
  f32 variance_sum_part13;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    {
      const Index v = 0;
      const Vec<f32, 2> positions_v = load_constant<Vec<f32, 2>>(&positions[384 * s_0 + 64 * d_0 + v + 2 * t]);
      const Vec<f32, 2> segments_v = load_constant<Vec<f32, 2>>(&segments[64 * d_0 + v + 2 * t]);
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        x[2 * d_0 + (v + lane)] = ((((ids[S * b + s_0] >= i32(0)) && (ids[S * b + s_0] < i32(30522))) ? words[64 * d_0 + (v + lane) + 2 * t + Index(ids[S * b + s_0]) * 384] : 0.0f) + positions_v[lane]) + segments_v[lane];
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part12 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      center_sum_part12 += x[2 * d_0 + d_2];
    }
  }
  center_sum_part12 = warp_reduce<Sum, 32>(center_sum_part12);
  center_sum += center_sum_part12;
  center = center_sum / 384.0f;
  variance_sum = 0.0f;
  variance_sum_part13 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 6; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      variance_sum_part13 += (x[2 * d_0 + d_2] - center) * (x[2 * d_0 + d_2] - center);
    }
  }
  variance_sum_part13 = warp_reduce<Sum, 32>(variance_sum_part13);
  variance_sum += variance_sum_part13;
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
        out_v[lane] = (((x[2 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
      }
      store(&out[384 * S * b + 384 * s_0 + 64 * d_0 + v + 2 * t], out_v);
    }
  }
}
