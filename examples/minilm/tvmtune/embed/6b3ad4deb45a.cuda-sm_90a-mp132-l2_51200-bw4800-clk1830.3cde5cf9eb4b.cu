#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(256) embed_0(const i32* __restrict__ ids, const f32* __restrict__ words, const f32* __restrict__ positions, const f32* __restrict__ segments, const f32* __restrict__ gamma, const f32* __restrict__ beta, f32* __restrict__ out, Index S) {
  const Index b = Index(blockIdx.x) / ((S + 31) / 32);
  const Index s_0 = Index(blockIdx.x) % ((S + 31) / 32);
  const Index t_mod_8 = Index(threadIdx.x) % 8;
  const Index t_8 = Index(threadIdx.x) / 8;
  f32 x[48];
  f32 center_sum;
  f32 center;
  f32 variance_sum;
  f32 variance;
  f32 center_sum_part12;
  f32 variance_sum_part13;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 24; ++d_0) {
    {
      const Index v = 0;
      Vec<f32, 2> positions_v{};
      if ((32 * s_0 + t_8) < S) positions_v = load_constant<Vec<f32, 2>>(&positions[12288 * s_0 + 16 * d_0 + v + 384 * t_8 + 2 * t_mod_8]);
      Vec<f32, 2> segments_v{};
      if ((32 * s_0 + t_8) < S) segments_v = load_constant<Vec<f32, 2>>(&segments[16 * d_0 + v + 2 * t_mod_8]);
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        x[2 * d_0 + (v + lane)] = ((32 * s_0 + t_8) < S) ? (((((ids[S * b + 32 * s_0 + t_8] >= i32(0)) && (ids[S * b + 32 * s_0 + t_8] < i32(30522))) ? words[16 * d_0 + (v + lane) + 2 * t_mod_8 + Index(ids[S * b + 32 * s_0 + t_8]) * 384] : 0.0f) + positions_v[lane]) + segments_v[lane]) : 0.0f;
      }
    }
  }
  center_sum = 0.0f;
  center_sum_part12 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 24; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      center_sum_part12 += x[2 * d_0 + d_2];
    }
  }
  center_sum_part12 = warp_reduce<Sum, 8>(center_sum_part12);
  if ((32 * s_0 + t_8) < S) {
    center_sum += center_sum_part12;
  }
  center = ((32 * s_0 + t_8) < S) ? (center_sum / 384.0f) : 0.0f;
  variance_sum = 0.0f;
  variance_sum_part13 = 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 24; ++d_0) {
    #pragma unroll
    for (Index d_2 = 0; d_2 < 2; ++d_2) {
      variance_sum_part13 += (x[2 * d_0 + d_2] - center) * (x[2 * d_0 + d_2] - center);
    }
  }
  variance_sum_part13 = warp_reduce<Sum, 8>(variance_sum_part13);
  if ((32 * s_0 + t_8) < S) {
    variance_sum += variance_sum_part13;
  }
  variance = ((32 * s_0 + t_8) < S) ? (variance_sum / 384.0f) : 0.0f;
  #pragma unroll
  for (Index d_0 = 0; d_0 < 24; ++d_0) {
    {
      const Index v = 0;
      if ((32 * s_0 + t_8) < S) {
        const Vec<f32, 2> gamma_v = load_constant<Vec<f32, 2>>(&gamma[16 * d_0 + v + 2 * t_mod_8]);
        const Vec<f32, 2> beta_v = load_constant<Vec<f32, 2>>(&beta[16 * d_0 + v + 2 * t_mod_8]);
        Vec<f32, 2> out_v;
        #pragma unroll
        for (int lane = 0; lane < 2; ++lane) {
          out_v[lane] = (((x[2 * d_0 + (v + lane)] - center) * tvmtune::rsqrt(variance + 1e-12f)) * gamma_v[lane]) + beta_v[lane];
        }
        store(&out[384 * S * b + 12288 * s_0 + 16 * d_0 + v + 384 * t_8 + 2 * t_mod_8], out_v);
      }
    }
  }
}
