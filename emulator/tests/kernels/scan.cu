// Inclusive sums of one block: shuffles within warps, then the sums of warps.
enum : int { THREADS = 256 };
extern "C" __global__ void __launch_bounds__(THREADS) scan(const int* x, int* y, int n) {
  __shared__ int warps[THREADS / 32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  int carry = 0;
  for (int base = 0; base < n; base += THREADS) {
    int v = base + t < n ? x[base + t] : 0;
    for (int d = 1; d < 32; d <<= 1) {
      int o = __shfl_up_sync(~0u, v, d);
      if (lane >= d) v += o;
    }
    if (lane == 31) warps[warp] = v;
    __syncthreads();
    int before = carry;
    for (int w = 0; w < warp; w++) before += warps[w];
    if (base + t < n) y[base + t] = before + v;
    for (int w = 0; w < THREADS / 32; w++) carry += warps[w];
#ifndef BUG_MISSING_BARRIER
    __syncthreads();
#endif
  }
}
