// Waiting: barriers for some of a block's warps (all architectures), barriers in shared
// memory, clusters, proxies and the division of registers (sm_90 and above).
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

// Waits for THREADS threads, whole warps. ID is 1 to 15, as __syncthreads has 0; it is a constant,
// since a kernel with an unknown one takes all 16 barriers.
template <int ID, int THREADS> TVMTUNE_FN void barrier_wait() {
  asm volatile("bar.sync %0, %1;" :: "n"(ID), "n"(THREADS) : "memory");
}

// Counts as arrived, and goes on.
template <int ID, int THREADS> TVMTUNE_FN void barrier_arrive() {
  asm volatile("bar.arrive %0, %1;" :: "n"(ID), "n"(THREADS) : "memory");
}

#if __CUDA_ARCH__ >= 900
// One lane of a converged warp.
TVMTUNE_FN bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}

// A barrier in shared memory. Its phase is over when `count` arrived and all bytes that were
// announced have come.
TVMTUNE_FN void mbarrier_init(u64* barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

// Makes `mbarrier_init` known to the cluster and to asynchronous copies.
TVMTUNE_FN void mbarrier_fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

TVMTUNE_FN void mbarrier_arrive(u64* barrier) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }"
               :: "r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces bytes that will come.
TVMTUNE_FN void mbarrier_expect(u64* barrier, u32 n_bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }"
               :: "r"(shared_address(barrier)), "r"(n_bytes) : "memory");
}

// Arrives at the same barrier of another block of the cluster, for a block that waits until this one has
// read: what the other block copies next must not come earlier. The form is that of CUTLASS
// (`ClusterBarrier::arrive`), without a scope: `.release.cluster` becomes a fence of the whole GPU before
// each arrival, and the reads it would order are over when the thread arrives.
TVMTUNE_FN void mbarrier_arrive_at(u64* barrier, u32 block) {
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
      :: "r"(shared_address(barrier)), "r"(block) : "memory");
}

// Returns once the phase of this parity is over: at once for parity 1 of a new barrier. As in CUTLASS
// (`ClusterBarrier::wait`), it has no scope, though other blocks may have arrived: `.acquire.cluster`
// discards the first-level cache after each wait.
TVMTUNE_FN void mbarrier_wait(u64* barrier, u32 parity) {
  asm volatile(
      "{ .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again; }"
      :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Makes this thread's writes to shared memory known to copies and matrix instructions that read it
// asynchronously.
TVMTUNE_FN void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The number of this block in its cluster.
TVMTUNE_FN u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

TVMTUNE_FN void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
TVMTUNE_FN void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
TVMTUNE_FN void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

// The address in a block of the cluster that corresponds to `here` in this block's shared memory.
template <class T> TVMTUNE_FN T* cluster_map(T* here, u32 block) {
  u64 there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(block));
  return reinterpret_cast<T*>(there);
}
#endif

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_FEAT_SM100_ALL) || \
    defined(__CUDA_ARCH_FEAT_SM103_ALL) || defined(__CUDA_ARCH_FEAT_SM120_ALL)
// Gives this warpgroup N registers a thread (a multiple of 8, 24 to 240), more or fewer than it has.
template <int N> TVMTUNE_FN void registers_grow() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));
}
template <int N> TVMTUNE_FN void registers_shrink() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));
}
#endif

}  // namespace tvmtune
