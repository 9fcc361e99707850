#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32, 2) project_qkv_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out, Index T) {
  extern __shared__ __align__(1024) unsigned char shared[];
  f32* const x_copy = reinterpret_cast<f32*>(shared + 0);
  f32* const w_copy = reinterpret_cast<f32*>(shared + 4608);
  const Index t_0 = Index(blockIdx.x) / 18;
  const Index n_0 = Index(blockIdx.x) % 18;
  const Index t_mod_4 = Index(threadIdx.x) % 4;
  const Index t = Index(threadIdx.x);
  const Index t_4 = Index(threadIdx.x) / 4;
  f32 out_sum[64];
  #pragma unroll
  for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
    #pragma unroll
    for (Index t_2 = 0; t_2 < 4; ++t_2) {
      #pragma unroll
      for (Index n_2 = 0; n_2 < 2; ++n_2) {
        out_sum[2 * n_0_2 + 16 * t_2 + n_2] = 0.0f;
      }
    }
  }
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      Vec<f32, 4> x_v{};
      if ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) x_v = load_constant<Vec<f32, 4>>(&x[12288 * t_0 + 6144 * x0_x1_0 + v + 384 * (t / 2) + 4 * (t % 2)]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        x_copy[16 * x0_x1_0 + 36 * (v + lane) + (t / 2) + 144 * (t % 2)] = ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) ? x_v[lane] : 0.0f;
      }
    }
  }
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&w_copy[48 * x0_x1_0 + 12 * (t / 8) + (t % 8)], &w[24576 * n_0 + 1536 * x0_x1_0 + 384 * (t / 8) + (t % 8)]);
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      Vec<f32, 4> x_v{};
      if ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) x_v = load_constant<Vec<f32, 4>>(&x[12288 * t_0 + 6144 * x0_x1_0 + v + 384 * (t / 2) + 4 * (t % 2) + 8]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        x_copy[16 * x0_x1_0 + 36 * (v + lane) + (t / 2) + 144 * (t % 2) + 288] = ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) ? x_v[lane] : 0.0f;
      }
    }
  }
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&w_copy[48 * x0_x1_0 + 12 * (t / 8) + (t % 8) + 768], &w[24576 * n_0 + 1536 * x0_x1_0 + 384 * (t / 8) + (t % 8) + 8]);
  }
  copy_async_commit();
  #pragma unroll
  for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
    {
      const Index v = 0;
      Vec<f32, 4> x_v{};
      if ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) x_v = load_constant<Vec<f32, 4>>(&x[12288 * t_0 + 6144 * x0_x1_0 + v + 384 * (t / 2) + 4 * (t % 2) + 16]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        x_copy[16 * x0_x1_0 + 36 * (v + lane) + (t / 2) + 144 * (t % 2) + 576] = ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) ? x_v[lane] : 0.0f;
      }
    }
  }
  #pragma unroll 4
  for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
    copy_async<4>(&w_copy[48 * x0_x1_0 + 12 * (t / 8) + (t % 8) + 1536], &w[24576 * n_0 + 1536 * x0_x1_0 + 384 * (t / 8) + (t % 8) + 16]);
  }
  copy_async_commit();
  for (Index k_0 = 0; k_0 < 48; ++k_0) {
    copy_async_wait<2>();
    __syncwarp();
    if ((k_0 + 3) < 48) {
      #pragma unroll
      for (Index x0_x1_0 = 0; x0_x1_0 < 2; ++x0_x1_0) {
        {
          const Index v = 0;
          Vec<f32, 4> x_v{};
          if ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) x_v = load_constant<Vec<f32, 4>>(&x[12288 * t_0 + 8 * k_0 + 6144 * x0_x1_0 + v + 384 * (t / 2) + 4 * (t % 2) + 24]);
          #pragma unroll
          for (int lane = 0; lane < 4; ++lane) {
            x_copy[16 * x0_x1_0 + 36 * (v + lane) + (t / 2) + 288 * ((k_0 + 3) % 4) + 144 * (t % 2)] = ((32 * t_0 + 16 * x0_x1_0 + (t / 2)) < T) ? x_v[lane] : 0.0f;
          }
        }
      }
      #pragma unroll 4
      for (Index x0_x1_0 = 0; x0_x1_0 < 16; ++x0_x1_0) {
        copy_async<4>(&w_copy[48 * x0_x1_0 + 12 * (t / 8) + 768 * ((k_0 + 3) % 4) + (t % 8)], &w[24576 * n_0 + 8 * k_0 + 1536 * x0_x1_0 + 384 * (t / 8) + (t % 8) + 24]);
      }
    }
    copy_async_commit();
    #pragma unroll
    for (Index k_1 = 0; k_1 < 8; ++k_1) {
      #pragma unroll
      for (Index n_0_2 = 0; n_0_2 < 8; ++n_0_2) {
        #pragma unroll
        for (Index t_2 = 0; t_2 < 4; ++t_2) {
          #pragma unroll
          for (Index n_2 = 0; n_2 < 2; ++n_2) {
            out_sum[2 * n_0_2 + 16 * t_2 + n_2] += x_copy[36 * k_1 + t_2 + 4 * t_4 + 288 * (k_0 % 4)] * w_copy[k_1 + 96 * n_0_2 + 12 * n_2 + 24 * t_mod_4 + 768 * (k_0 % 4)];
          }
        }
      }
    }
  }
  #pragma unroll
  for (Index n_1 = 0; n_1 < 8; ++n_1) {
    #pragma unroll
    for (Index t_3 = 0; t_3 < 4; ++t_3) {
      {
        const Index v = 0;
        if ((32 * t_0 + t_3 + 4 * t_4) < T) {
          const Vec<f32, 2> b_v = load_constant<Vec<f32, 2>>(&b[64 * n_0 + 8 * n_1 + v + 2 * t_mod_4]);
          Vec<f32, 2> out_v;
          #pragma unroll
          for (int lane = 0; lane < 2; ++lane) {
            out_v[lane] = out_sum[2 * n_1 + 16 * t_3 + (v + lane)] + b_v[lane];
          }
          store(&out[36864 * t_0 + 64 * n_0 + 8 * n_1 + 1152 * t_3 + v + 4608 * t_4 + 2 * t_mod_4], out_v);
        }
      }
    }
  }
}
