#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(256, 2) attention_0(const f32* __restrict__ qkv, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const weight = reinterpret_cast<f32*>(shared + 0);
  f32* const qkv_operand = reinterpret_cast<f32*>(shared + 1024);
  f32* const qkv_operand2 = reinterpret_cast<f32*>(shared + 3072);
  f32* const qkv_operand3 = reinterpret_cast<f32*>(shared + 9984);
  const Index b = 0;
  const Index h = Index(blockIdx.x) / ((S + 15) / 16) % 12;
  const Index i_0 = Index(blockIdx.x) % ((S + 15) / 16);
  const Index e_0 = 0;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 scores_sum;
  f32 scores;
  f32 peak;
  f32 total;
  f32 out_sum[2];
  f32 peak_before;
  f32 peak_factor;
  f32 peak_part14;
  f32 total_part15;
  if (t < 128) {
    {
      const Index v = 0;
      Vec<f32, 4> qkv_v{};
      if ((16 * i_0 + (t / 8)) < S) qkv_v = load_constant<Vec<f32, 4>>(&qkv[1152 * S * b + 32 * h + 18432 * i_0 + v + 1152 * (t / 8) + 4 * (t % 8)]);
      Vec<f32, 4> qkv_operand_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        qkv_operand_v[lane] = ((16 * i_0 + (t / 8)) < S) ? qkv_v[lane] : 0.0f;
      }
      store(&qkv_operand[v + 32 * (t / 8) + 4 * (t % 8)], qkv_operand_v);
    }
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    out_sum[e_1] = 0.0f;
  }
  peak = __int_as_float(0xff800000);
  total = 0.0f;
  if (0 < ((S + 15) / 16)) {
    if (t < 128) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand2[v + 36 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + v + 1152 * (t / 8) + 4 * (t % 8) + 384], (t / 8) < S);
      }
    }
    if (t < 128) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[v + 32 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + v + 1152 * (t / 8) + 4 * (t % 8) + 768], (t / 8) < S);
      }
    }
  }
  copy_async_commit();
  if (1 < ((S + 15) / 16)) {
    if (t < 128) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand2[v + 36 * (t / 8) + 4 * (t % 8) + 576], &qkv[1152 * S * b + 32 * h + v + 1152 * (t / 8) + 4 * (t % 8) + 18816], ((t / 8) + 16) < S);
      }
    }
    if (t < 128) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[v + 32 * (t / 8) + 4 * (t % 8) + 512], &qkv[1152 * S * b + 32 * h + v + 1152 * (t / 8) + 4 * (t % 8) + 19200], ((t / 8) + 16) < S);
      }
    }
  }
  copy_async_commit();
  for (Index j_0 = 0; j_0 < ((S + 15) / 16); ++j_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((j_0 + 2) < ((S + 15) / 16)) {
      if (t < 128) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand2[v + 36 * (t / 8) + 576 * ((j_0 + 2) % 3) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 18432 * j_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 37248], (16 * j_0 + (t / 8) + 32) < S);
        }
      }
      if (t < 128) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand3[v + 32 * (t / 8) + 512 * ((j_0 + 2) % 3) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 18432 * j_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 37632], (16 * j_0 + (t / 8) + 32) < S);
        }
      }
    }
    copy_async_commit();
    scores_sum = 0.0f;
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      #pragma unroll
      for (Index e_2 = 0; e_2 < 16; ++e_2) {
        scores_sum += qkv_operand[16 * e_1 + e_2 + 32 * t_16] * qkv_operand2[16 * e_1 + e_2 + 36 * t_mod_16 + 576 * (j_0 % 3)];
      }
    }
    scores = (((16 * j_0 + t_mod_16) < S) && ((16 * i_0 + t_16) < S)) ? ((cast<i32>(i64(16 * j_0 + t_mod_16)) < lengths[b]) ? (scores_sum * 0.17677669f) : (-1e30f)) : 0.0f;
    peak_before = ((16 * i_0 + t_16) < S) ? peak : 0.0f;
    peak_part14 = __int_as_float(0xff800000);
    if ((16 * i_0 + t_16) < S && (16 * j_0 + t_mod_16) < S) {
      peak_part14 = tvmtune::max(peak_part14, scores);
    }
    peak_part14 = warp_reduce<Max, 16>(peak_part14);
    if ((16 * i_0 + t_16) < S) {
      peak = tvmtune::max(peak, peak_part14);
    }
    if ((16 * i_0 + t_16) < S) {
      peak_factor = tvmtune::exp(tvmtune::max(peak_before, (-3.4028235e38f)) - tvmtune::max(peak, (-3.4028235e38f)));
    }
    weight[16 * t_16 + t_mod_16] = (((16 * j_0 + t_mod_16) < S) && ((16 * i_0 + t_16) < S)) ? tvmtune::exp(scores - tvmtune::max(peak, (-3.4028235e38f))) : 0.0f;
    if ((16 * i_0 + t_16) < S) {
      total *= peak_factor;
    }
    __syncthreads();
    total_part15 = 0.0f;
    total_part15 += weight[16 * t_16 + t_mod_16];
    total_part15 = warp_reduce<Sum, 16>(total_part15);
    if ((16 * i_0 + t_16) < S) {
      total += total_part15;
    }
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((16 * i_0 + t_16) < S) {
        out_sum[e_1] *= peak_factor;
      }
    }
    #pragma unroll
    for (Index j_2 = 0; j_2 < 16; ++j_2) {
      #pragma unroll
      for (Index e_1 = 0; e_1 < 2; ++e_1) {
        out_sum[e_1] += weight[j_2 + 16 * t_16] * qkv_operand3[32 * j_2 + 16 * e_1 + t_mod_16 + 512 * (j_0 % 3)];
      }
    }
  }
  if ((16 * i_0 + t_16) < S) {
    peak_factor = tvmtune::exp(tvmtune::max(peak, (-3.4028235e38f)) - peak);
  }
  if ((16 * i_0 + t_16) < S) {
    total *= peak_factor;
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    if ((16 * i_0 + t_16) < S) {
      out_sum[e_1] *= peak_factor;
    }
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    if ((16 * i_0 + t_16) < S) {
      out[384 * S * b + 32 * h + 6144 * i_0 + 16 * e_1 + 384 * t_16 + t_mod_16] = out_sum[e_1] / total;
    }
  }
}
