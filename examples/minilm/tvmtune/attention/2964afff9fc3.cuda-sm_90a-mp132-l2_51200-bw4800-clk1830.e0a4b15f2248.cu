#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32, 2) attention_0(const f32* __restrict__ qkv, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const weight = reinterpret_cast<f32*>(shared + 0);
  f32* const qkv_operand = reinterpret_cast<f32*>(shared + 128);
  f32* const qkv_operand2 = reinterpret_cast<f32*>(shared + 384);
  f32* const qkv_operand3 = reinterpret_cast<f32*>(shared + 9600);
  const Index b = 0;
  const Index h = Index(blockIdx.x) / ((S + 1) / 2) % 12;
  const Index i_0 = Index(blockIdx.x) % ((S + 1) / 2);
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
  {
    const Index v = 0;
    Vec<f32, 2> qkv_v{};
    if ((2 * i_0 + (t / 16)) < S) qkv_v = load_constant<Vec<f32, 2>>(&qkv[1152 * S * b + 32 * h + 2304 * i_0 + v + 1152 * (t / 16) + 2 * (t % 16)]);
    Vec<f32, 2> qkv_operand_v;
    #pragma unroll
    for (int lane = 0; lane < 2; ++lane) {
      qkv_operand_v[lane] = ((2 * i_0 + (t / 16)) < S) ? qkv_v[lane] : 0.0f;
    }
    store(&qkv_operand[v + 32 * (t / 16) + 2 * (t % 16)], qkv_operand_v);
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    out_sum[e_1] = 0.0f;
  }
  peak = __int_as_float(0xff800000);
  total = 0.0f;
  if (0 < ((S + 15) / 16)) {
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t], &qkv[1152 * S * b + 32 * h + 1152 * b_h_j_e_0 + t + 384], b_h_j_e_0 < S);
    }
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 8; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<8>(&qkv_operand3[64 * b_h_j_e_0 + v + 32 * (t / 16) + 2 * (t % 16)], &qkv[1152 * S * b + 32 * h + 2304 * b_h_j_e_0 + v + 1152 * (t / 16) + 2 * (t % 16) + 768], (2 * b_h_j_e_0 + (t / 16)) < S);
      }
    }
  }
  copy_async_commit();
  if (1 < ((S + 15) / 16)) {
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t + 576], &qkv[1152 * S * b + 32 * h + 1152 * b_h_j_e_0 + t + 18816], (b_h_j_e_0 + 16) < S);
    }
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 8; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<8>(&qkv_operand3[64 * b_h_j_e_0 + v + 32 * (t / 16) + 2 * (t % 16) + 512], &qkv[1152 * S * b + 32 * h + 2304 * b_h_j_e_0 + v + 1152 * (t / 16) + 2 * (t % 16) + 19200], (2 * b_h_j_e_0 + (t / 16) + 16) < S);
      }
    }
  }
  copy_async_commit();
  if (2 < ((S + 15) / 16)) {
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t + 1152], &qkv[1152 * S * b + 32 * h + 1152 * b_h_j_e_0 + t + 37248], (b_h_j_e_0 + 32) < S);
    }
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 8; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<8>(&qkv_operand3[64 * b_h_j_e_0 + v + 32 * (t / 16) + 2 * (t % 16) + 1024], &qkv[1152 * S * b + 32 * h + 2304 * b_h_j_e_0 + v + 1152 * (t / 16) + 2 * (t % 16) + 37632], (2 * b_h_j_e_0 + (t / 16) + 32) < S);
      }
    }
  }
  copy_async_commit();
  for (Index j_0 = 0; j_0 < ((S + 15) / 16); ++j_0) {
    copy_async_wait<2>();
    __syncwarp();
    if ((j_0 + 3) < ((S + 15) / 16)) {
      #pragma unroll 4
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
        copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t + 576 * ((j_0 + 3) % 4)], &qkv[1152 * S * b + 32 * h + 18432 * j_0 + 1152 * b_h_j_e_0 + t + 55680], (16 * j_0 + b_h_j_e_0 + 48) < S);
      }
      #pragma unroll
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 8; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<8>(&qkv_operand3[64 * b_h_j_e_0 + v + 32 * (t / 16) + 512 * ((j_0 + 3) % 4) + 2 * (t % 16)], &qkv[1152 * S * b + 32 * h + 18432 * j_0 + 2304 * b_h_j_e_0 + v + 1152 * (t / 16) + 2 * (t % 16) + 56064], (16 * j_0 + 2 * b_h_j_e_0 + (t / 16) + 48) < S);
        }
      }
    }
    copy_async_commit();
    scores_sum = 0.0f;
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      #pragma unroll
      for (Index e_2 = 0; e_2 < 16; ++e_2) {
        scores_sum += qkv_operand[16 * e_1 + e_2 + 32 * t_16] * qkv_operand2[16 * e_1 + e_2 + 36 * t_mod_16 + 576 * (j_0 % 4)];
      }
    }
    scores = (((16 * j_0 + t_mod_16) < S) && ((2 * i_0 + t_16) < S)) ? ((cast<i32>(i64(16 * j_0 + t_mod_16)) < lengths[b]) ? (scores_sum * 0.17677669f) : (-1e30f)) : 0.0f;
    peak_before = ((2 * i_0 + t_16) < S) ? peak : 0.0f;
    peak_part14 = __int_as_float(0xff800000);
    if ((2 * i_0 + t_16) < S && (16 * j_0 + t_mod_16) < S) {
      peak_part14 = tvmtune::max(peak_part14, scores);
    }
    peak_part14 = warp_reduce<Max, 16>(peak_part14);
    if ((2 * i_0 + t_16) < S) {
      peak = tvmtune::max(peak, peak_part14);
    }
    if ((2 * i_0 + t_16) < S) {
      peak_factor = tvmtune::exp(tvmtune::max(peak_before, (-3.4028235e38f)) - tvmtune::max(peak, (-3.4028235e38f)));
    }
    weight[16 * t_16 + t_mod_16] = (((16 * j_0 + t_mod_16) < S) && ((2 * i_0 + t_16) < S)) ? tvmtune::exp(scores - tvmtune::max(peak, (-3.4028235e38f))) : 0.0f;
    if ((2 * i_0 + t_16) < S) {
      total *= peak_factor;
    }
    __syncwarp();
    total_part15 = 0.0f;
    total_part15 += weight[16 * t_16 + t_mod_16];
    total_part15 = warp_reduce<Sum, 16>(total_part15);
    if ((2 * i_0 + t_16) < S) {
      total += total_part15;
    }
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((2 * i_0 + t_16) < S) {
        out_sum[e_1] *= peak_factor;
      }
    }
    #pragma unroll
    for (Index j_2 = 0; j_2 < 16; ++j_2) {
      #pragma unroll
      for (Index e_1 = 0; e_1 < 2; ++e_1) {
        out_sum[e_1] += weight[j_2 + 16 * t_16] * qkv_operand3[32 * j_2 + 16 * e_1 + t_mod_16 + 512 * (j_0 % 4)];
      }
    }
  }
  if ((2 * i_0 + t_16) < S) {
    peak_factor = tvmtune::exp(tvmtune::max(peak, (-3.4028235e38f)) - peak);
  }
  if ((2 * i_0 + t_16) < S) {
    total *= peak_factor;
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    if ((2 * i_0 + t_16) < S) {
      out_sum[e_1] *= peak_factor;
    }
  }
  #pragma unroll
  for (Index e_1 = 0; e_1 < 2; ++e_1) {
    if ((2 * i_0 + t_16) < S) {
      out[384 * S * b + 32 * h + 768 * i_0 + 16 * e_1 + 384 * t_16 + t_mod_16] = out_sum[e_1] / total;
    }
  }
}
