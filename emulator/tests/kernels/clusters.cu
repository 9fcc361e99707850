// What the CTAs of a cluster do with each other's shared memory, and bulk copies of bytes.
using u32 = unsigned;
__device__ u32 there(const void* p, u32 rank) {
  u32 a;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"((u32)__cvta_generic_to_shared(p)), "r"(rank));
  return a;
}
__device__ void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }

// Each CTA reads what its neighbour wrote, and adds to its counter.
extern "C" __global__ void __cluster_dims__(4, 1, 1) neighbours(const int* x, int* y) {
  __shared__ int value[32], count;
  const int t = threadIdx.x;
  u32 rank, next;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  value[t] = x[blockIdx.x * 32 + t];
  if (t == 0) count = 100;
#ifndef BUG_NO_CLUSTER_SYNC
  cluster_sync();
#else
  __syncthreads();
#endif
  next = (rank + 1) % 4;
  int v;
  asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(v) : "r"(there(&value[t], next)) : "memory"); /* of the neighbour */
  asm volatile("red.shared::cluster.add.s32 [%0], %1;" ::"r"(there(&count, next)), "r"(t) : "memory");
#ifndef BUG_EARLY_EXIT
  cluster_sync();
#else
  if (rank == 0) return;
#endif
  y[blockIdx.x * 32 + t] = v + count;
}

// Bytes come by a bulk copy, go to the next CTA by another, and are added to the output by a third.
extern "C" __global__ void __cluster_dims__(2, 1, 1) bytes(const float* x, float* y, int n) {
  extern __shared__ __align__(128) float smem[];
  __shared__ unsigned long long bars[2];
  float* mine = smem;
  float* theirs = smem + n;
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const u32 bar = (u32)__cvta_generic_to_shared(bars), at = (u32)__cvta_generic_to_shared(mine);
  if (threadIdx.x == 0)
    for (int i = 0; i < 2; i++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar + 8 * i) : "memory");
  if (threadIdx.x == 0) asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  cluster_sync();
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; i++) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar + 8 * i), "r"(4 * n) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at), "l"(x + rank * n), "r"(4 * n), "r"(bar) : "memory");
    asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.shared.b64 P, [%0], 0; @!P bra W; }" ::"r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(there(theirs, rank ^ 1)), "r"(at), "r"(4 * n), "r"(there(&bars[1], rank ^ 1)) : "memory");
    asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 P, [%0], 0; @!P bra W; }" ::"r"(bar + 8) : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(y), "r"((u32)__cvta_generic_to_shared(theirs)), "r"(4 * n) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#ifndef BUG_NO_STORE_WAIT
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
  }
  cluster_sync();
}
