// Copies that tell an mbarrier: everybody waits for everybody's 16 bytes, twice. BUG_NO_WAIT: nobody does.
extern "C" __global__ void __launch_bounds__(64) arrive(const int4* x, int* y) {
  __shared__ __align__(16) int4 tile[64];
  __shared__ unsigned long long bar;
  const int t = threadIdx.x;
  const unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(tile + t);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at) : "memory");
  __syncthreads();
  for (int round = 0; round < 2; round++) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x + round * 64 + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
#ifndef BUG_NO_WAIT
    asm volatile("{ .reg .pred P; W: mbarrier.test_wait.parity.shared.b64 P, [%0], %1; @!P bra W; }" ::"r"(at), "r"(round) : "memory");
#endif
    y[round * 64 + t] = tile[63 - t].x; /* read */
    __syncthreads();
  }
}
