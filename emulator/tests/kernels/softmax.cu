// y[r, :] = softmax(x[r, :]): one block a row, shuffles within warps, shared memory between them.
enum : int { THREADS = 128, WARPS = THREADS / 32 };

template <class F> __device__ float of_block(float v, float* part, F f) {
  for (int m = 16; m > 0; m >>= 1) v = f(v, __shfl_xor_sync(~0u, v, m));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
#ifndef BUG_MISSING_BARRIER
  __syncthreads();
#endif
  v = part[0];
  for (int w = 1; w < WARPS; w++) v = f(v, part[w]);
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, int cols) {
  __shared__ float most[WARPS], sums[WARPS];
  const float* row = x + (long long)blockIdx.x * cols;
  float* out = y + (long long)blockIdx.x * cols;
  float m = -__int_as_float(0x7f800000);
  for (int c = threadIdx.x; c < cols; c += THREADS) m = fmaxf(m, row[c]);
  m = of_block(m, most, [](float a, float b) { return fmaxf(a, b); });
  float s = 0;
  for (int c = threadIdx.x; c < cols; c += THREADS) s += expf(row[c] - m);
  s = of_block(s, sums, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < cols; c += THREADS) out[c] = expf(row[c] - m) / s;
}
