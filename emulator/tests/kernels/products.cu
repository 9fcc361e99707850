// One wgmma a kernel: both factors' bytes are copied to shared memory as they come, with descriptors to match.
using u32 = unsigned;
using u64 = unsigned long long;
enum : int { BYTES = 16384 };

__device__ u32 prepare(unsigned char* smem, const uint4* x) {
  for (int i = threadIdx.x; i < BYTES / 16; i += 128) reinterpret_cast<uint4*>(smem)[i] = x[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  return (u32)__cvta_generic_to_shared(smem) >> 4;
}
__device__ void finish() { asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); }

#define KERNEL(name) extern "C" __global__ void __launch_bounds__(128) name(const uint4* x, u32* y, u64 da, u64 db, int add)
#define FENCE for (int i = 0; i < 8; i++) asm volatile("" : "+r"(d[i]) :: "memory"); asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define BEGIN extern __shared__ __align__(1024) unsigned char smem[]; const u32 at = prepare(smem, x); da += at, db += at; u32* o = y + threadIdx.x * 8; u32 d[8]; for (int i = 0; i < 8; i++) d[i] = o[i]; FENCE
#define END finish(); for (int i = 0; i < 8; i++) o[i] = d[i];
#define D8 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define D4 "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
#define D2 "+r"(d[0]), "+r"(d[1])
// N = 16, A in shared memory.
#define SHARED(name, op, tail) KERNEL(name) { BEGIN asm volatile("{ .reg .pred p; setp.ne.b32 p, %10, 0; " op \
  " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p" tail "; }" : D8 : "l"(da), "l"(db), "r"(add)); END }
SHARED(bf16_kk, "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 0")
SHARED(f16_minus, "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16", ", -1, 1, 0, 0")
SHARED(bf16_mk, "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16", ", 1, 1, 1, 0")
SHARED(bf16_kn, "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16", ", 1, 1, 0, 1")
SHARED(tf32, "wgmma.mma_async.sync.aligned.m64n16k8.f32.tf32.tf32", ", 1, 1")
SHARED(s8, "wgmma.mma_async.sync.aligned.m64n16k32.s32.s8.s8", "")
// N = 16, sums in half precision.
KERNEL(f16_f16) { BEGIN asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n16k16.f16.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }" : D4 : "l"(da), "l"(db), "r"(add)); END }
// N = 8, A in registers: its words come where descriptors would point to.
KERNEL(bf16_rs) {
  BEGIN
  u32 a[4];
  for (int i = 0; i < 4; i++) a[i] = reinterpret_cast<const u32*>(x)[(da - at) / 4 + threadIdx.x * 4 + i];
  for (int i = 0; i < 4; i++) asm volatile("" : "+r"(a[i]) :: "memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %9, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0; }"
    : D4 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "r"(add));
  END
}
