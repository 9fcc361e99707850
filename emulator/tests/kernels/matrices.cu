// Products of matrices in registers, one instruction a kernel, and moves between registers and shared memory.
#define R4(x) "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
#define MMA(name, op, NA, NB, NC, d, a, b, c) extern "C" __global__ void name(const unsigned* x, unsigned* y) { \
  const unsigned* p = x + threadIdx.x * 10; unsigned* o = y + threadIdx.x * 4; unsigned u[4]; \
  unsigned ra[4] = {p[0], p[1], p[2], p[3]}, rb[2] = {p[4], p[5]}, rc[4] = {p[6], p[7], p[8], p[9]}; \
  float fd[4], fc[4] = {__uint_as_float(rc[0]), __uint_as_float(rc[1]), __uint_as_float(rc[2]), __uint_as_float(rc[3])}; \
  op; }
#define F32 asm volatile
#define SHAPE_4_2(inst) asm volatile(inst " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
  : "=f"(fd[0]), "=f"(fd[1]), "=f"(fd[2]), "=f"(fd[3]) : R4(ra), "r"(rb[0]), "r"(rb[1]), "f"(fc[0]), "f"(fc[1]), "f"(fc[2]), "f"(fc[3])); \
  for (int i = 0; i < 4; i++) o[i] = __float_as_uint(fd[i]);
#define SHAPE_2_1(inst) asm volatile(inst " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
  : "=f"(fd[0]), "=f"(fd[1]), "=f"(fd[2]), "=f"(fd[3]) : "r"(ra[0]), "r"(ra[1]), "r"(rb[0]), "f"(fc[0]), "f"(fc[1]), "f"(fc[2]), "f"(fc[3])); \
  for (int i = 0; i < 4; i++) o[i] = __float_as_uint(fd[i]);
#define HALF_4_2(inst) asm volatile(inst " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" \
  : "=r"(u[0]), "=r"(u[1]) : R4(ra), "r"(rb[0]), "r"(rb[1]), "r"(rc[0]), "r"(rc[1])); o[0] = u[0], o[1] = u[1];
#define INT_4_2(inst) asm volatile(inst " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
  : "=r"(u[0]), "=r"(u[1]), "=r"(u[2]), "=r"(u[3]) : R4(ra), "r"(rb[0]), "r"(rb[1]), R4(rc)); for (int i = 0; i < 4; i++) o[i] = u[i];
MMA(bf16_16, SHAPE_4_2("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 4, 2, 4, f, r, r, f)
MMA(f16_16, SHAPE_4_2("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), 4, 2, 4, f, r, r, f)
MMA(f16_8, SHAPE_2_1("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"), 2, 1, 4, f, r, r, f)
MMA(f16_f16, HALF_4_2("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"), 4, 2, 2, r, r, r, r)
MMA(tf32_8, SHAPE_4_2("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"), 4, 2, 4, f, r, r, f)
MMA(tf32_4, SHAPE_2_1("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"), 2, 1, 4, f, r, r, f)
MMA(s8_32, INT_4_2("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), 4, 2, 4, r, r, r, r)
MMA(u8_s8_32, INT_4_2("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32"), 4, 2, 4, r, r, r, r)

// In by rows, out by columns, and back again.
extern "C" __global__ void moves(const unsigned* x, unsigned* y) {
  __shared__ __align__(16) unsigned s[128];
  const int t = threadIdx.x;
  for (int i = 0; i < 4; i++) s[t + 32 * i] = x[t + 32 * i];
  __syncwarp();
  const unsigned row = (unsigned)__cvta_generic_to_shared(s + t * 4);
  unsigned r[4], q[2], u;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(q[0]), "=r"(q[1]) : "r"(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(u) : "r"(row));
  for (int i = 0; i < 4; i++) y[i * 32 + t] = r[i];
  y[128 + t] = q[0], y[160 + t] = q[1], y[192 + t] = u;
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%4], {%0, %1, %2, %3};" ::"r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(row));
  __syncwarp();
  for (int i = 0; i < 4; i++) y[224 + t + 32 * i] = s[t + 32 * i];
}
