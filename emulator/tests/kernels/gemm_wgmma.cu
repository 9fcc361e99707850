// C[M, N] = A[M, K] * B[N, K]^T, bf16, sums in f32: TMA into a ring of stages, one producing warp, one warpgroup with wgmma,
// TMA store, several tiles a CTA. CLUSTER_2: two CTAs share the tiles of B, each loads half for both. N, K % 8 == 0.
#ifdef CLUSTER_2
enum : int { CLUSTER = 2 };
#else
enum : int { CLUSTER = 1 };
#endif
enum : int { BM = 64, BN = 64, BK = 64, STAGES = 2, A_BYTES = BM * BK * 2, B_BYTES = BN * BK * 2, STAGE = A_BYTES + B_BYTES };
enum : int { C_AT = STAGES * STAGE, FULL_AT = C_AT + BM * BN * 2, EMPTY_AT = FULL_AT + 8 * STAGES, THREADS = 160 };
struct alignas(64) Map { unsigned long long opaque[16]; };
using u32 = unsigned;
using u64 = unsigned long long;
#define D __device__ __forceinline__

D void init(u32 bar, u32 count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
D void expect(u32 bar, u32 bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(bar), "r"(bytes) : "memory");
}
D void arrive(u32 bar, u32 cta) {
  asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }" ::"r"(bar), "r"(cta) : "memory");
}
D void wait(u32 bar, u32 parity) {
  asm volatile("{ .reg .pred P; W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 P, [%0], %1; @!P bra W; }" ::"r"(bar), "r"(parity) : "memory");
}
D void load(u32 to, const Map* map, u32 bar, int x, int y, unsigned short ctas) {
  if (CLUSTER == 1 || ctas == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to), "l"(map), "r"(bar), "r"(x), "r"(y), "h"(ctas) : "memory");
}
D void store(const Map* map, u32 from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from), "r"(x), "r"(y) : "memory");
}
// Rows of 128 bytes, swizzled; eight of them 1024 bytes apart.
D u64 descriptor(u32 at) { return u64(at >> 4 & 0x3fff) | 1ull << 16 | 64ull << 32 | 1ull << 62; }
#define R4(n) "+f"(d[n]), "+f"(d[n + 1]), "+f"(d[n + 2]), "+f"(d[n + 3])
D void multiply(float (&d)[32], u64 a, u64 b, int add) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0; }"
    : R4(0), R4(4), R4(8), R4(12), R4(16), R4(20), R4(24), R4(28) : "l"(a), "l"(b), "r"(add));
}

extern "C" __global__ void
#ifdef CLUSTER_2
__cluster_dims__(2, 1, 1)
#endif
__launch_bounds__(THREADS) gemm_wgmma(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const __grid_constant__ Map mc, int m, int n, int k) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const u32 base = (u32)__cvta_generic_to_shared(smem), full = base + FULL_AT, empty = base + EMPTY_AT;
  const int t = threadIdx.x, steps = (k + BK - 1) / BK;
  u32 rank = 0;
  if (CLUSTER > 1) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  const int tiles_m = (m + BM * CLUSTER - 1) / (BM * CLUSTER), tiles = tiles_m * ((n + BN - 1) / BN);
  if (t == 0) {
    for (int i = 0; i < STAGES; i++) {
#ifdef BUG_BARRIER_COUNT
      init(full + 8 * i, 2);
#else
      init(full + 8 * i, 1);
#endif
      init(empty + 8 * i, CLUSTER);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (CLUSTER > 1) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); else __syncthreads();
  if (t >= 128) {
    if (t == 128) {
      int it = 0;
      for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
        const int m0 = (tile % tiles_m * CLUSTER + rank) * BM, n0 = tile / tiles_m * BN;
        for (int s = 0; s < steps; s++, it++) {
          const u32 stage = base + it % STAGES * STAGE, bar = full + 8 * (it % STAGES);
          wait(empty + 8 * (it % STAGES), (it / STAGES & 1) ^ 1);
#ifdef BUG_TX_BYTES
          expect(bar, A_BYTES);
#else
          expect(bar, STAGE);
#endif
          load(stage, &ma, bar, s * BK, m0, 0); /* load of a */
          load(stage + A_BYTES + rank * (B_BYTES / CLUSTER), &mb, bar, s * BK, n0 + rank * (BN / CLUSTER), (1 << CLUSTER) - 1);
        }
      }
      // A CTA may not end while its peer still arrives here.
      for (int i = 0; i < STAGES; i++, it++) wait(empty + 8 * (it % STAGES), (it / STAGES & 1) ^ 1);
    }
  } else {
    int it = 0;
    const int lane = t % 32;
    auto release = [&](int i) { if (t < CLUSTER) arrive(empty + 8 * (i % STAGES), t); };
    for (int tile = blockIdx.x / CLUSTER; tile < tiles; tile += gridDim.x / CLUSTER) {
      const int m0 = (tile % tiles_m * CLUSTER + rank) * BM, n0 = tile / tiles_m * BN;
      float d[32];
      for (int s = 0; s < steps; s++, it++) {
        const u32 stage = base + it % STAGES * STAGE;
#ifndef BUG_NO_FULL_WAIT
        wait(full + 8 * (it % STAGES), it / STAGES & 1);
#endif
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int kk = 0; kk < BK / 16; kk++)
          multiply(d, descriptor(stage) + kk * 2, descriptor(stage + A_BYTES) + kk * 2, s > 0 || kk > 0); /* multiply */
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#ifdef BUG_EARLY_RELEASE
        asm volatile("bar.sync 1, 128;" ::: "memory");
        release(it);
#endif
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#ifndef BUG_EARLY_RELEASE
        asm volatile("bar.sync 1, 128;" ::: "memory");
        release(it);
#endif
      }
#ifndef BUG_NO_STORE_WAIT
      if (t == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
      asm volatile("bar.sync 1, 128;" ::: "memory");
      const int row = t / 32 * 16 + lane / 4;
#pragma unroll
      for (int j = 0; j < BN / 8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int r = row + h * 8;
          u32 pair;
          asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(d[j * 4 + h * 2 + 1]), "f"(d[j * 4 + h * 2]));
          *reinterpret_cast<u32*>(smem + C_AT + r * 128 + (j ^ (r & 7)) * 16 + lane % 4 * 4) = pair; /* keep */
        }
#ifndef BUG_NO_PROXY_FENCE
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
      asm volatile("bar.sync 1, 128;" ::: "memory");
      if (t == 0) {
        store(&mc, base + C_AT, n0, m0); /* store */
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      }
    }
    if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
