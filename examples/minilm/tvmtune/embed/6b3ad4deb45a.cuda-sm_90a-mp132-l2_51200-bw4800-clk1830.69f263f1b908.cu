#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128) embed_0(const i32* __restrict__ ids, const f32* __restrict__ words, const f32* __restrict__ positions, const f32* __restrict__ segments, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, Index S) {
  const Index b = Index(blockIdx.x) / ((S + 3) / 4);
  const Index s_0 = Index(blockIdx.x) % ((S + 3) / 4);
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 x[12];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part12;
  f32 variance_sum_part13;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 4> positions_v{};
      if ((4 * s_0 + t_32) < S) positions_v = load_constant<Vec<f32, 4>>(&positions[1536 * s_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32]);
      Vec<f32, 4> segments_v{};
      if ((4 * s_0 + t_32) < S) segments_v = load_constant<Vec<f32, 4>>(&segments[128 * d_0 + v + 4 * t_mod_32]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        x[4 * d_0 + (v + lane)] = ((4 * s_0 + t_32) < S) ? (((((ids[S * b + 4 * s_0 + t_32] >= i32(0)) && (ids[S * b + 4 * s_0 + t_32] < i32(30522))) ? words[128 * d_0 + (v + lane) + 4 * t_mod_32 + Index(ids[S * b + 4 * s_0 + t_32]) * 384] : 0.0f) + positions_v[lane]) + segments_v[lane]) : 0.0f;
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part12 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      center_sum_part12 += x[4 * d_0 + d_2];
    }
  }
  center_sum_part12 = warp_reduce<Sum, 32>(center_sum_part12);
  if ((4 * s_0 + t_32) < S) {
    center_sum += center_sum_part12;
  }
  center = ((4 * s_0 + t_32) < S) ? (center_sum / 384.0f) : 0.0f;
  variance_sum = 0.0f;
  variance_sum_part13 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 4; ++d_2) {
      variance_sum_part13 += (x[4 * d_0 + d_2] - center) * (x[4 * d_0 + d_2] - center);
    }
  }
  variance_sum_part13 = warp_reduce<Sum, 32>(variance_sum_part13);
  if ((4 * s_0 + t_32) < S) {
    variance_sum += variance_sum_part13;
  }
  variance = ((4 * s_0 + t_32) < S) ? (variance_sum / 384.0f) : 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 3; ++d_0) {
    {
      const Index v = 0;
      if ((4 * s_0 + t_32) < S) {
        const Vec<f32, 4> gamma_v = load_constant<Vec<f32, 4>>(&gamma[128 * d_0 + v + 4 * t_mod_32]);
        const Vec<f32, 4> beta_v = load_constant<Vec<f32, 4>>(&beta[128 * d_0 + v + 4 * t_mod_32]);
        Vec<f32, 4> out_v;
        #pragma unroll
        for (int lane = 0; lane < 4; ++lane) {
          out_v[lane] = (((x[4 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
        }
        store(&out[384 * S * b + 1536 * s_0 + 128 * d_0 + v + 384 * t_32 + 4 * t_mod_32], out_v);
      }
    }
  }
}
