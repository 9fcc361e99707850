// C[M, N] = A[M, K] * B[K, N], all row-major, any sizes: tiles of 32 x 32 x 8, 2 x 4 results a thread, two buffers.
enum : int { BM = 32, BN = 32, BK = 8, THREADS = 128, PAD = 4 };

extern "C" __global__ void __launch_bounds__(THREADS) sgemm(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k) {
  __shared__ __align__(16) float as[2][BK][BM + PAD];
  __shared__ __align__(16) float bs[2][BK][BN];
  const int t = threadIdx.x, tx = t % 8, ty = t / 8;
#ifdef BUG_CROSS_CTA
  const int m0 = blockIdx.y * (BM / 2), n0 = blockIdx.x * BN;
#else
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
#endif
  auto load = [&](int k0, int buffer) {
#ifdef BUG_UNINITIALISED
    if (t == 5) return;
#endif
#pragma unroll
    for (int i = 0; i < BM * BK / THREADS; i++) {
      const int e = t + i * THREADS, row = e / BK, col = e % BK;
      as[buffer][col][row] = m0 + row < m && k0 + col < k ? a[(m0 + row) * k + k0 + col] : 0;
    }
#pragma unroll
    for (int i = 0; i < BK * BN / THREADS; i++) {
      const int e = t + i * THREADS, row = e / BN, col = e % BN;
      bs[buffer][row][col] = k0 + row < k && n0 + col < n ? b[(k0 + row) * n + n0 + col] : 0;
    }
  };
  float acc[2][4] = {};
  load(0, 0);
  __syncthreads();
  for (int k0 = 0, buffer = 0; k0 < k; k0 += BK, buffer ^= 1) {
    if (k0 + BK < k) load(k0 + BK, buffer ^ 1);
#pragma unroll
    for (int kk = 0; kk < BK; kk++) {
      const float2 x = *reinterpret_cast<const float2*>(&as[buffer][kk][ty * 2]);
      const float4 y = *reinterpret_cast<const float4*>(&bs[buffer][kk][tx * 4]);
      const float xs[2] = {x.x, x.y}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i][j] += xs[i] * ys[j];
    }
#if defined(BUG_DIVERGENT_BARRIER)
    if (t < 64) __syncthreads();
#elif !defined(BUG_MISSING_BARRIER)
    __syncthreads();
#endif
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int row = m0 + ty * 2 + i, col = n0 + tx * 4 + j;
#ifdef BUG_OOB
      if (row <= m && col < n)
#else
      if (row < m && col < n)
#endif
        c[row * n + col] = acc[i][j];
    }
}
