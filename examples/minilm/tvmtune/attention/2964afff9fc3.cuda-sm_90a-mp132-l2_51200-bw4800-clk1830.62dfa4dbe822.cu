#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32, 2) attention_0(const f32* __restrict__ qkv, const i32* __restrict__ lengths, f32* __restrict__ out, Index S) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const weight = reinterpret_cast<f32*>(shared + 0);
  f32* const qkv_operand = reinterpret_cast<f32*>(shared + 2176);
  f32* const qkv_operand2 = reinterpret_cast<f32*>(shared + 3200);
  f32* const qkv_operand3 = reinterpret_cast<f32*>(shared + 21632);
  const Index b = 0;
  const Index h = Index(blockIdx.x) / ((S + 7) / 8) % 12;
  const Index i_0 = Index(blockIdx.x) % ((S + 7) / 8);
  const Index e_0 = 0;
  const Index t_mod_16 = Index(threadIdx.x) % 16;
  const Index t = Index(threadIdx.x);
  const Index t_16 = Index(threadIdx.x) / 16;
  f32 scores_sum[16];
  f32 scores[16];
  f32 peak[4];
  f32 total[4];
  f32 out_sum[8];
  f32 peak_before[4];
  f32 peak_factor[4];
  f32 peak_part14[4];
  f32 total_part15[4];
  #pragma unroll
  for (Index b_h_i_e_0 = 0; b_h_i_e_0 < 4; ++b_h_i_e_0) {
    {
      const Index v = 0;
      Vec<f32, 2> qkv_v{};
      if ((8 * i_0 + 2 * b_h_i_e_0 + (t / 16)) < S) qkv_v = load_constant<Vec<f32, 2>>(&qkv[1152 * S * b + 32 * h + 9216 * i_0 + 2304 * b_h_i_e_0 + v + 1152 * (t / 16) + 2 * (t % 16)]);
      Vec<f32, 2> qkv_operand_v;
      #pragma unroll
      for (int lane = 0; lane < 2; ++lane) {
        qkv_operand_v[lane] = ((8 * i_0 + 2 * b_h_i_e_0 + (t / 16)) < S) ? qkv_v[lane] : 0.0f;
      }
      store(&qkv_operand[64 * b_h_i_e_0 + v + 32 * (t / 16) + 2 * (t % 16)], qkv_operand_v);
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
  if (0 < ((S + 63) / 64)) {
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 64; ++b_h_j_e_0) {
      copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t], &qkv[1152 * S * b + 32 * h + 1152 * b_h_j_e_0 + t + 384], b_h_j_e_0 < S);
    }
    #pragma unroll 4
    for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
      {
        const Index v = 0;
        copy_async<16>(&qkv_operand3[128 * b_h_j_e_0 + v + 32 * (t / 8) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 4608 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 768], (4 * b_h_j_e_0 + (t / 8)) < S);
      }
    }
  }
  copy_async_commit();
  for (Index j_0 = 0; j_0 < ((S + 63) / 64); ++j_0) {
    copy_async_wait<0>();
    __syncwarp();
    if ((j_0 + 1) < ((S + 63) / 64)) {
      #pragma unroll 4
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 64; ++b_h_j_e_0) {
        copy_async<4>(&qkv_operand2[36 * b_h_j_e_0 + t + 2304 * ((j_0 + 1) % 2)], &qkv[1152 * S * b + 32 * h + 73728 * j_0 + 1152 * b_h_j_e_0 + t + 74112], (64 * j_0 + b_h_j_e_0 + 64) < S);
      }
      #pragma unroll 4
      for (Index b_h_j_e_0 = 0; b_h_j_e_0 < 16; ++b_h_j_e_0) {
        {
          const Index v = 0;
          copy_async<16>(&qkv_operand3[128 * b_h_j_e_0 + v + 32 * (t / 8) + 2048 * ((j_0 + 1) % 2) + 4 * (t % 8)], &qkv[1152 * S * b + 32 * h + 73728 * j_0 + 4608 * b_h_j_e_0 + v + 1152 * (t / 8) + 4 * (t % 8) + 74496], (64 * j_0 + 4 * b_h_j_e_0 + (t / 8) + 64) < S);
        }
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        scores_sum[4 * i_2 + j_1] = 0.0f;
      }
    }
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      #pragma unroll
      for (Index e_2 = 0; e_2 < 16; ++e_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 4; ++i_2) {
          #pragma unroll
          for (Index j_1 = 0; j_1 < 4; ++j_1) {
            scores_sum[4 * i_2 + j_1] += qkv_operand[16 * e_1 + e_2 + 32 * i_2 + 128 * t_16] * qkv_operand2[16 * e_1 + e_2 + 576 * j_1 + 36 * t_mod_16 + 2304 * (j_0 % 2)];
          }
        }
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        scores[4 * i_2 + j_1] = (((64 * j_0 + 16 * j_1 + t_mod_16) < S) && ((8 * i_0 + i_2 + 4 * t_16) < S)) ? ((cast<i32>(i64(64 * j_0 + 16 * j_1 + t_mod_16)) < lengths[b]) ? (scores_sum[4 * i_2 + j_1] * 0.17677669f) : (-1e30f)) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      peak_before[i_2] = ((8 * i_0 + i_2 + 4 * t_16) < S) ? peak[i_2] : 0.0f;
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      peak_part14[i] = __int_as_float(0xff800000);
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        if ((8 * i_0 + i_2 + 4 * t_16) < S && (64 * j_0 + 16 * j_1 + t_mod_16) < S) {
          peak_part14[i_2] = tvmtune::max(peak_part14[i_2], scores[4 * i_2 + j_1]);
        }
      }
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      peak_part14[i] = warp_reduce<Max, 16>(peak_part14[i]);
      if ((8 * i_0 + i + 4 * t_16) < S) {
        peak[i] = tvmtune::max(peak[i], peak_part14[i]);
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      if ((8 * i_0 + i_2 + 4 * t_16) < S) {
        peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak_before[i_2], (-3.4028235e38f)) - tvmtune::max(peak[i_2], (-3.4028235e38f)));
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        weight[68 * i_2 + 16 * j_1 + 272 * t_16 + t_mod_16] = (((64 * j_0 + 16 * j_1 + t_mod_16) < S) && ((8 * i_0 + i_2 + 4 * t_16) < S)) ? tvmtune::exp(scores[4 * i_2 + j_1] - tvmtune::max(peak[i_2], (-3.4028235e38f))) : 0.0f;
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      if ((8 * i_0 + i_2 + 4 * t_16) < S) {
        total[i_2] *= peak_factor[i_2];
      }
    }
    __syncwarp();
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      total_part15[i] = 0.0f;
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index j_1 = 0; j_1 < 4; ++j_1) {
        total_part15[i_2] += weight[68 * i_2 + 16 * j_1 + 272 * t_16 + t_mod_16];
      }
    }
    #pragma unroll
    for (Index i = 0; i < 4; ++i) {
      total_part15[i] = warp_reduce<Sum, 16>(total_part15[i]);
      if ((8 * i_0 + i + 4 * t_16) < S) {
        total[i] += total_part15[i];
      }
    }
    #pragma unroll
    for (Index i_2 = 0; i_2 < 4; ++i_2) {
      #pragma unroll
      for (Index e_1 = 0; e_1 < 2; ++e_1) {
        if ((8 * i_0 + i_2 + 4 * t_16) < S) {
          out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
        }
      }
    }
    for (Index j_1 = 0; j_1 < 4; ++j_1) {
      #pragma unroll
      for (Index j_2 = 0; j_2 < 16; ++j_2) {
        #pragma unroll
        for (Index i_2 = 0; i_2 < 4; ++i_2) {
          #pragma unroll
          for (Index e_1 = 0; e_1 < 2; ++e_1) {
            out_sum[2 * i_2 + e_1] += weight[16 * j_1 + j_2 + 68 * i_2 + 272 * t_16] * qkv_operand3[512 * j_1 + 32 * j_2 + 16 * e_1 + t_mod_16 + 2048 * (j_0 % 2)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    if ((8 * i_0 + i_2 + 4 * t_16) < S) {
      peak_factor[i_2] = tvmtune::exp(tvmtune::max(peak[i_2], (-3.4028235e38f)) - peak[i_2]);
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    if ((8 * i_0 + i_2 + 4 * t_16) < S) {
      total[i_2] *= peak_factor[i_2];
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((8 * i_0 + i_2 + 4 * t_16) < S) {
        out_sum[2 * i_2 + e_1] *= peak_factor[i_2];
      }
    }
  }
  #pragma unroll
  for (Index i_2 = 0; i_2 < 4; ++i_2) {
    #pragma unroll
    for (Index e_1 = 0; e_1 < 2; ++e_1) {
      if ((8 * i_0 + i_2 + 4 * t_16) < S) {
        out[384 * S * b + 32 * h + 3072 * i_0 + 384 * i_2 + 16 * e_1 + 1536 * t_16 + t_mod_16] = out_sum[2 * i_2 + e_1] / total[i_2];
      }
    }
  }
}
