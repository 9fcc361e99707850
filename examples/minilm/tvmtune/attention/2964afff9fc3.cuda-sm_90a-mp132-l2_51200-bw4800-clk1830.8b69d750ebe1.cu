#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(64, 2) attention_0(const f32* __restrict__ qkv, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const weight = reinterpret_cast<f32*>(shared + 0);
  f32* const qkv_operand = reinterpret_cast<f32*>(shared + 8448);
  f32* const qkv_operand2 = reinterpret_cast<f32*>(shared + 10496);
  f32* const qkv_operand3 = reinterpret_cast<f32*>(shared + 47360);
  const Index b = 0;
  const Index h = Index(blockIdx.x) / ((S + 15) / 16) % 12;
  const Index i_0 = Index(blockIdx.x) % ((S + 15) / 16);
  const Index e_0 = 0;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 scores_sum[32];
  f32 scores[32];
  f32 peak[4];
  f32 total[4];
  f32 out_sum[8];
  f32 peak_before[4];
  f32 peak_factor[4];
  f32 peak_part14[4];
  f32 total_part15[4];
  #pragma unroll
  for (Index b_h_i_e_0 = 0; b_h_i_e_0 < 2; ++b_h_i_e_0) {
    {
      const Index v = 0;
      Vec<f32, 4> qkv_v{};
      if ((16 * i_0 + 8 * b_h_i_e_0 + (t / 8)) < S) qkv_v = load_constant<Vec<f32, 4>>(&qkv[1152 * S * b + 32 * h + 18432 * i_0 + 9216 * b_h_i_e_0 + v + 1152 * (t / 8) + 4 * (t % 8)]);
      Vec<f32, 4> qkv_operand_v;
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        qkv_operand_v[lane] = ((16 * i_0 + 8 * b_h_i_e_0 + (t / 8)) < S) ? qkv_v[lane] : 0.0f;
      }
      store(&qkv_operand[256 * b_h_i_e_0 + v + 32 * (t / 8) + 4 * (t % 8)], qkv_operand_v);
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      out_sum[2 * i_2 + e_1] = 0.0f;
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    peak[i_2] = __int_as_float(0xff800000);
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    total[i_2] = 0.0f;
  }
  if (0 < ((S + 127) / 128)) {
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand2[288 * b_h_j_e_0 + v + 36 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 9216 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 384], (8 * b_h_j_e_0 + (t / 8)) < S);
      }
    }
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[256 * b_h_j_e_0 + v + 32 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 9216 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 768], (8 * b_h_j_e_0 + (t / 8)) < S);
      }
    }
  }
  copy_async_commit();
  for (Index j_0 = 0; j_0 < ((S + 127) / 128); ++j_0) {
    copy_async_wait<0>();
    __syncthreads();
    if ((j_0 + 1) < ((S + 127) / 128)) {
      #pragma unroll 4
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand2[288 * b_h_j_e_0 + v + 36 * (t / 8) + 4608 * ((j_0 + 1) % 2) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 147456 * j_0 + 9216 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 147840], (128 * j_0 + 8 * b_h_j_e_0 + (t / 8) + 128) < S);
        }
      }
      #pragma unroll 4
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand3[256 * b_h_j_e_0 + v + 32 * (t / 8) + 4096 * ((j_0 + 1) % 2) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 147456 * j_0 + 9216 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 148224], (128 * j_0 + 8 * b_h_j_e_0 + (t / 8) + 128) < S);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 8; ++j_1) {
        scores_sum[8 * i_2 + j_1] = 0.0f;
      }
    }
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      #pragma unroll
      for (Index e_2 = 0; e_2 < 16; ++e_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 4; ++i_2) {
          #pragma unroll
          for (Index j_1 = 0; j_1 < 8; ++j_1) {
            scores_sum[8 * i_2 + j_1] += qkv_operand[16 * e_1 + e_2 + 32 * i_2 + 128 * t_16] * qkv_operand2[16 * e_1 + e_2 + 576 * j_1 + 36 * t_mod_16 + 4608 * (j_0 % 2)];
          }
        }
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 8; ++j_1) {
        scores[8 * i_2 + j_1] = (((128 * j_0 + 16 * j_1 + t_mod_16) < S) && ((16 * i_0 + i_2 + 4 * t_16) < S)) ? ((cast<i32>(i64(128 * j_0 + 16 * j_1 + t_mod_16)) < lengths[b]) ? (scores_sum[8 * i_2 + j_1] * 0.17677669f) : (-1e30f)) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      peak_before[i_2] = ((16 * i_0 + i_2 + 4 * t_16) < S) ? peak[i_2] : 0.0f;
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      peak_part14[i] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 8; ++j_1) {
        if ((16 * i_0 + i_2 + 4 * t_16) < S && (128 * j_0 + 16 * j_1 + t_mod_16) < S) {
          peak_part14[i_2] = tvmtune::max(peak_part14[i_2], scores[8 * i_2 + j_1]);
        }
      }
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      peak_part14[i] = warp_reduce<Max, 16>(peak_part14[i]);
      if ((16 * i_0 + i + 4 * t_16) < S) {
        peak[i] = tvmtune::max(peak[i], peak_part14[i]);
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      if ((16 * i_0 + i_2 + 4 * t_16) < S) {
        peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak_before[i_2], (-3.4028235e38f)) - tvmtune::max(peak[i_2], (-3.4028235e38f)));
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 8; ++j_1) {
        weight[132 * i_2 + 16 * j_1 + 528 * t_16 + t_mod_16] = (((128 * j_0 + 16 * j_1 + t_mod_16) < S) && ((16 * i_0 + i_2 + 4 * t_16) < S)) ? tvmtune::exp(scores[8 * i_2 + j_1] - tvmtune::max(peak[i_2], (-3.4028235e38f))) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      if ((16 * i_0 + i_2 + 4 * t_16) < S) {
        total[i_2] *= peak_factor[i_2];
      }
    }
    __syncthreads();
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      total_part15[i] = 0.0f;
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 8; ++j_1) {
        total_part15[i_2] += weight[132 * i_2 + 16 * j_1 + 528 * t_16 + t_mod_16];
      }
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      total_part15[i] = warp_reduce<Sum, 16>(total_part15[i]);
      if ((16 * i_0 + i + 4 * t_16) < S) {
        total[i] += total_part15[i];
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index e_1 = 0; e_1 < 2; ++e_1) {
        if ((16 * i_0 + i_2 + 4 * t_16) < S) {
          out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
        }
      }
    }
    for (Index j_1 = 0; j_1 < 8; ++j_1) {
      #pragma unroll
      for (Index j_2 = 0; j_2 < 16; ++j_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 4; ++i_2) {
          #pragma unroll
          for (Index e_1 = 0; e_1 < 2; ++e_1) {
            out_sum[2 * i_2 + e_1] += weight[16 * j_1 + j_2 + 132 * i_2 + 528 * t_16] * qkv_operand3[512 * j_1 + 32 * j_2 + 16 * e_1 + t_mod_16 + 4096 * (j_0 % 2)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    if ((16 * i_0 + i_2 + 4 * t_16) < S) {
      peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak[i_2], (-3.4028235e38f)) - peak[i_2]);
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    if ((16 * i_0 + i_2 + 4 * t_16) < S) {
      total[i_2] *= peak_factor[i_2];
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((16 * i_0 + i_2 + 4 * t_16) < S) {
        out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((16 * i_0 + i_2 + 4 * t_16) < S) {
        out[384 * S * b + 32 * h + 6144 * i_0 + 384 * i_2 + 16 * e_1 + 1536 * t_16 + t_mod_16] = out_sum[2 * i_2 + e_1] / total[i_2];
      }
    }
  }
}
