#include "tvmtune/types.cuh"
#include "tvmtune/math.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

using namespace tvmtune;
using Index = int;

extern "C" __global__ void __launch_bounds__(32) expand_gelu_0(const f32* __restrict__ x, const f32* __restrict__ w, const f32* __restrict__ b, f32* __restrict__ out) {
  const Index t = 0;
  const Index n_0 = Index(blockIdx.x) % 1536;
  const Index t_2 = Index(threadIdx.x);
  f32 h_sum;
  f32 h_sum_part6;
  h_sum = 0.0f;
  h_sum_part6 = 0.0f;
  for (Index k_0 = 0; k_0 < 3; ++k_0) {
    {
      const Index v = 0;
      const Vec<f32, 4> x_v = load_constant<Vec<f32, 4>>(&x[384 * t + 128 * k_0 + v + 4 * t_2]);
      const Vec<f32, 4> w_v = load_constant<Vec<f32, 4>>(&w[384 * n_0 + 128 * k_0 + v + 4 * t_2]);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        h_sum_part6 += x_v[lane] * w_v[lane];
      }
    }
  }
  h_sum_part6 = warp_reduce<Sum, 32>(h_sum_part6);
  h_sum += h_sum_part6;
  if (t_2 < 1) {
    out[1536 * t + n_0] = (0.5f * (h_sum + b[n_0])) * (1.0f + tvmtune::erf((h_sum + b[n_0]) * 0.70710677f));
  }
}
