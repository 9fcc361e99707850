// Sums of slices, and the sum of those: two kernels, no atomics. LAST_BLOCK: one kernel, whose last block adds up.
enum : int { THREADS = 128 };

__device__ float of_block(float v, float* part) {
  for (int m = 16; m > 0; m >>= 1) v += __shfl_down_sync(~0u, v, m);
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < THREADS / 32 ? part[threadIdx.x] : 0;
  if (threadIdx.x < 32)
    for (int m = 16; m > 0; m >>= 1) v += __shfl_down_sync(~0u, v, m);
  return v;
}

extern "C" __global__ void __launch_bounds__(THREADS) partial(const float* x, float* slices, int n) {
  __shared__ float part[THREADS / 32];
  float v = 0;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) v += x[i];
  v = of_block(v, part);
  if (threadIdx.x == 0) slices[blockIdx.x] = v;
}

extern "C" __global__ void __launch_bounds__(THREADS) finish(const float* slices, float* sum, int n) {
  __shared__ float part[THREADS / 32];
  float v = 0;
  for (int i = threadIdx.x; i < n; i += THREADS) v += slices[i];
  v = of_block(v, part);
  if (threadIdx.x == 0) *sum = v;
}

extern "C" __global__ void __launch_bounds__(THREADS) last_block(
    const float* x, float* slices, float* sum, unsigned* count, int n) {
  __shared__ float part[THREADS / 32];
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) v += x[i];
  v = of_block(v, part);
  if (threadIdx.x == 0) {
    slices[blockIdx.x] = v;
#ifndef BUG_NO_FENCE
    __threadfence();
#endif
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  v = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += THREADS) v += ((volatile float*)slices)[i]; /* slices */
  v = of_block(v, part);
  if (threadIdx.x == 0) *sum = v;
}
