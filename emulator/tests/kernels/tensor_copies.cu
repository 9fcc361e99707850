// Boxes of tensors of each rank: in by TMA, and out to a second tensor, stored or added.
struct alignas(64) Map { unsigned long long opaque[16]; };
using u32 = unsigned;

__device__ void open(u32 bar, u32 bytes) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(bar) : "memory");
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ void wait(u32 bar) {
  asm volatile("{ .reg .pred P; W: mbarrier.test_wait.parity.shared::cta.b64 P, [%0], 0; @!P bra W; }" ::"r"(bar) : "memory");
}
__device__ void close() { asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory"); }

#define KERNEL(name, rank, at, out) extern "C" __global__ void name( \
    const __grid_constant__ Map in, const __grid_constant__ Map to, unsigned char* image, int bytes, int x, int y, int z, int v, int w) { \
  extern __shared__ __align__(1024) unsigned char smem[]; \
  const u32 box = (u32)__cvta_generic_to_shared(smem), bar = box + 16384; \
  if (threadIdx.x == 0) { \
    open(bar, bytes); \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, " at "], [%2];" \
      ::"r"(box), "l"(&in), "r"(bar), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w) : "memory"); \
    wait(bar); \
    for (int i = 0; i < bytes; i++) image[i] = smem[i]; \
    asm volatile(out ".global.shared::cta" OUT_TAIL(out, rank) ".bulk_group [%1, " at "], [%0];" ::"r"(box), "l"(&to), "r"(0), "r"(x), "r"(y), "r"(z), "r"(v), "r"(w) : "memory"); \
    close(); \
  } \
}
#define OUT_TAIL(out, rank) ""
KERNEL(rank_1, "1d", "{%3}", "cp.async.bulk.tensor.1d")
KERNEL(rank_2, "2d", "{%3, %4}", "cp.async.bulk.tensor.2d")
KERNEL(rank_3, "3d", "{%3, %4, %5}", "cp.async.bulk.tensor.3d")
KERNEL(rank_5, "5d", "{%3, %4, %5, %6, %7}", "cp.async.bulk.tensor.5d")
#undef OUT_TAIL
#define OUT_TAIL(out, rank) ".add"
KERNEL(add_2, "2d", "{%3, %4}", "cp.reduce.async.bulk.tensor.2d")
