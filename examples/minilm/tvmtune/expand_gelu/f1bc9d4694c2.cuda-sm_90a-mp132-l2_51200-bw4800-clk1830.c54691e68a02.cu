#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(128) expand_gelu_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out) {
  const Index t = 0;
  const Index n_0 = Index(blockIdx.x) % 384;
  const Index t_mod_32 = Index(threadIdx.x) % 32;
  const Index t_32 = Index(threadIdx.x) / 32;
  f32 h_sum;
  f32 h_sum_part6;
  h_sum = 0.0f;
  h_sum_part6 = 0.0f;
  for (Index k_0 = 0; k_0 < 3; ++k_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> x_v = load_constant<Vec<f32, 4>>(&x[384 * t + 128 * k_0 + v + 4 * t_mod_32]);
      const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[1536 * n_0 + 128 * k_0 + v + 384 * t_32 + 4 * t_mod_32]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h_sum_part6 += x_v[lane] * w_v[lane];
      }
    }
  }
  h_sum_part6 = warp_reduce<Sum, 32>(h_sum_part6);
  h_sum += h_sum_part6;
  if (t_mod_32 < 1) {
    out[1536 * t + 4 * n_0 + t_32] = (0.5f * (h_sum + b[4 * n_0 + t_32])) * (1.0f + tvmtune::erf((h_sum + b[4 * n_0 + t_32]) * 0.70710677f));
  }
}
