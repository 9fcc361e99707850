#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128, 2) attention_0(const f32* __restrict__ qkv, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const weight = reinterpret_cast<f32*>(shared + 0);
  f32* const qkv_operand = reinterpret_cast<f32*>(shared + 16384);
  f32* const qkv_operand2 = reinterpret_cast<f32*>(shared + 24576);
  f32* const qkv_operand3 = reinterpret_cast<f32*>(shared + 52224);
  const Index b = Index(blockIdx.x) / (12 * ((S + 63) / 64));
  const Index h = Index(blockIdx.x) / ((S + 63) / 64) % 12;
  const Index i_0 = Index(blockIdx.x) % ((S + 63) / 64);
  const Index e_0 = 0;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 scores_sum[32];
  f32 scores[32];
  f32 peak[8];
  f32 total[8];
  f32 out_sum[16];
  f32 peak_before[8];
  f32 peak_factor[8];
  f32 peak_part14[8];
  f32 total_part15[8];
  #pragma unroll
  for (Index b_h_i_e_0 = 0; b_h_i_e_0 < 4; ++b_h_i_e_0) {
    {
      const Index v = 0;
      Vec<f32, 4> qkv_v{};
      if ((64 * i_0 + 16 * b_h_i_e_0 + (t / 8)) < S) qkv_v = load_constant<Vec<f32, 4>>(&qkv[1152 * S * b + 32 * h + 73728 * i_0 + 18432 * b_h_i_e_0 + v + 1152 * (t / 8) + 4 * (t % 8)]);
      Vec<f32, 4> qkv_operand_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        qkv_operand_v[lane] = ((64 * i_0 + 16 * b_h_i_e_0 + (t / 8)) < S) ? qkv_v[lane] : 0.0f;
      }
      store(&qkv_operand[512 * b_h_i_e_0 + v + 32 * (t / 8) + 4 * (t % 8)], qkv_operand_v);
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      out_sum[2 * i_2 + e_1] = 0.0f;
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    peak[i_2] = __int_as_float(0xff800000);
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    total[i_2] = 0.0f;
  }
  if (0 < ((S + 63) / 64)) {
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand2[576 * b_h_j_e_0 + v + 36 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 384], (16 * b_h_j_e_0 + (t / 8)) < S);
      }
    }
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[512 * b_h_j_e_0 + v + 32 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 768], (16 * b_h_j_e_0 + (t / 8)) < S);
      }
    }
  }
  copy_async_commit();
  if (1 < ((S + 63) / 64)) {
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand2[576 * b_h_j_e_0 + v + 36 * (t / 8) + 4 * (t % 8) + 2304], &qkv[1152 * S * b + 32 * h + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 74112], (16 * b_h_j_e_0 + (t / 8) + 64) < S);
      }
    }
    #pragma unroll
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[512 * b_h_j_e_0 + v + 32 * (t / 8) + 4 * (t % 8) + 2048], &qkv[1152 * S * b + 32 * h + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 74496], (16 * b_h_j_e_0 + (t / 8) + 64) < S);
      }
    }
  }
  copy_async_commit();
  for (Index j_0 = 0; j_0 < ((S + 63) / 64); ++j_0) {
    copy_async_wait<1>();
    __syncthreads();
    if ((j_0 + 2) < ((S + 63) / 64)) {
      #pragma unroll
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand2[576 * b_h_j_e_0 + v + 36 * (t / 8) + 2304 * ((j_0 + 2) % 3) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 73728 * j_0 + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 147840], (64 * j_0 + 16 * b_h_j_e_0 + (t / 8) + 128) < S);
        }
      }
      #pragma unroll
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 4; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand3[512 * b_h_j_e_0 + v + 32 * (t / 8) + 2048 * ((j_0 + 2) % 3) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 73728 * j_0 + 18432 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 148224], (64 * j_0 + 16 * b_h_j_e_0 + (t / 8) + 128) < S);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        scores_sum[4 * i_2 + j_1] = 0.0f;
      }
    }
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      #pragma unroll
      for (Index e_2 = 0; e_2 < 16; ++e_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 8; ++i_2) {
          #pragma unroll
          for (Index j_1 = 0; j_1 < 4; ++j_1) {
            scores_sum[4 * i_2 + j_1] += qkv_operand[16 * e_1 + e_2 + 32 * i_2 + 256 * t_16] * qkv_operand2[16 * e_1 + e_2 + 576 * j_1 + 36 * t_mod_16 + 2304 * (j_0 % 3)];
          }
        }
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        scores[4 * i_2 + j_1] = (((64 * j_0 + 16 * j_1 + t_mod_16) < S) && ((64 * i_0 + i_2 + 8 * t_16) < S)) ? ((cast<i32>(i64(64 * j_0 + 16 * j_1 + t_mod_16)) < lengths[b]) ? (scores_sum[4 * i_2 + j_1] * 0.17677669f) : (-1e30f)) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      peak_before[i_2] = ((64 * i_0 + i_2 + 8 * t_16) < S) ? peak[i_2] : 0.0f;
    }
    #pragma unroll
    for (Index i = 0; i < 8; ++i) {
      peak_part14[i] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        if ((64 * i_0 + i_2 + 8 * t_16) < S && (64 * j_0 + 16 * j_1 + t_mod_16) < S) {
          peak_part14[i_2] = tvmtune::max(peak_part14[i_2], scores[4 * i_2 + j_1]);
        }
      }
    }
    #pragma unroll
    for (Index i = 0; i < 8; ++i) {
      peak_part14[i] = warp_reduce<Max, 16>(peak_part14[i]);
      if ((64 * i_0 + i + 8 * t_16) < S) {
        peak[i] = tvmtune::max(peak[i], peak_part14[i]);
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      if ((64 * i_0 + i_2 + 8 * t_16) < S) {
        peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak_before[i_2], (-3.4028235e38f)) - tvmtune::max(peak[i_2], (-3.4028235e38f)));
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        weight[64 * i_2 + 16 * j_1 + 512 * t_16 + t_mod_16] = (((64 * j_0 + 16 * j_1 + t_mod_16) < S) && ((64 * i_0 + i_2 + 8 * t_16) < S)) ? tvmtune::exp(scores[4 * i_2 + j_1] - tvmtune::max(peak[i_2], (-3.4028235e38f))) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      if ((64 * i_0 + i_2 + 8 * t_16) < S) {
        total[i_2] *= peak_factor[i_2];
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index i = 0; i < 8; ++i) {
      total_part15[i] = 0.0f;
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        total_part15[i_2] += weight[64 * i_2 + 16 * j_1 + 512 * t_16 + t_mod_16];
      }
    }
    #pragma unroll
    for (Index i = 0; i < 8; ++i) {
      total_part15[i] = warp_reduce<Sum, 16>(total_part15[i]);
      if ((64 * i_0 + i + 8 * t_16) < S) {
        total[i] += total_part15[i];
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 8; ++i_2) {
      #pragma unroll
      for (Index e_1 = 0; e_1 < 2; ++e_1) {
        if ((64 * i_0 + i_2 + 8 * t_16) < S) {
          out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
        }
      }
    }
    for (Index j_1 = 0; j_1 < 4; ++j_1) {
      #pragma unroll
      for (Index j_2 = 0; j_2 < 16; ++j_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 8; ++i_2) {
          #pragma unroll
          for (Index e_1 = 0; e_1 < 2; ++e_1) {
            out_sum[2 * i_2 + e_1] += weight[16 * j_1 + j_2 + 64 * i_2 + 512 * t_16] * qkv_operand3[512 * j_1 + 32 * j_2 + 16 * e_1 + t_mod_16 + 2048 * (j_0 % 3)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    if ((64 * i_0 + i_2 + 8 * t_16) < S) {
      peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak[i_2], (-3.4028235e38f)) - peak[i_2]);
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    if ((64 * i_0 + i_2 + 8 * t_16) < S) {
      total[i_2] *= peak_factor[i_2];
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((64 * i_0 + i_2 + 8 * t_16) < S) {
        out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 8; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((64 * i_0 + i_2 + 8 * t_16) < S) {
        out[384 * S * b + 32 * h + 24576 * i_0 + 384 * i_2 + 16 * e_1 + 3072 * t_16 + t_mod_16] = out_sum[2 * i_2 + e_1] / total[i_2];
      }
    }
  }
}
