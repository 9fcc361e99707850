// Loops and branches that threads leave at different times, and barriers for some warps only.
extern "C" __global__ void control(const int* x, int* y) {
  __shared__ int total[4];
  const int t = threadIdx.x;
  int n = x[t], steps = 0;
  while (n != 1) {
    if (n % 2) n = 3 * n + 1; else n /= 2;
    if (++steps > 100) break;
  }
  for (int i = 0; i < t % 5; i++) {
    if (i == 3) continue;
    for (int j = 0; j < i; j++) steps += j % 2 ? 3 : 5;
  }
  if (t < 64) {
    if (t < 4) total[t] = 0;
    asm volatile("bar.sync 1, 64;" ::: "memory");
    for (int k = 0; k < 64; k++) {
      if (k == t) total[t % 4] += steps;
      asm volatile("bar.sync 1, 64;" ::: "memory");
    }
    y[128 + t] = total[t % 4];
  }
  steps += 1000 * __syncthreads_count(t % 3 == 0) + 100000 * __syncthreads_or(t == 77) + 200000 * __syncthreads_and(t < 128);
  y[t] = steps;
}
