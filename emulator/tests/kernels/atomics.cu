// Atomic operations on global and shared memory.
extern "C" __global__ void atomics(unsigned* u, int* s, float* f, unsigned long long* l, float* old) {
  __shared__ unsigned shared[4];
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  if (t < 4) shared[t] = 0;
  __syncthreads();
  atomicAdd(&u[0], 1), atomicSub(&u[1], 2), atomicMin(&u[2], i), atomicMax(&u[3], i), atomicOr(&u[4], 1u << (i & 31));
  atomicAnd(&u[5], ~(1u << (i & 15))), atomicXor(&u[6], i), atomicInc(&u[7], 10), atomicDec(&u[8], 6);
  atomicMin(&s[0], -i), atomicMax(&s[1], i - 50), atomicAdd(&l[0], 1ull << 33), atomicMax(&l[1], (unsigned long long)i << 20);
  old[i] = atomicAdd(f, 1.0f);
  atomicAdd(&shared[t & 3], t);
  unsigned seen = *(volatile unsigned*)&u[9], want;
  do {
    want = seen;
    seen = atomicCAS(&u[9], want, want + 3);
  } while (seen != want);
  atomicExch(&u[10], 77);
  __syncthreads();
  if (t < 4) atomicAdd(&u[11 + t], shared[t]);
}
extern "C" __global__ void packed(unsigned* h, float4* v) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(h), "r"(0x3c004000) : "memory");
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(h + 1), "r"(0x3f804000) : "memory");
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(v), "f"(1.0f), "f"(2.0f), "f"(3.0f), "f"(4.0f) : "memory");
}
