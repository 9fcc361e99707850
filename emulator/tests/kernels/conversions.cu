// Conversions between all types, and arithmetic of 16-bit floats, in the words of the assembler.
#define F16(name, op) extern "C" __global__ void name(const unsigned short* x, unsigned short* y) { \
  const int i = threadIdx.x; unsigned short r; asm(op : "=h"(r) : "h"(x[3 * i]), "h"(x[3 * i + 1]), "h"(x[3 * i + 2])); y[i] = r; }
F16(half_add, "add.f16 %0, %1, %2;") F16(half_mul, "mul.f16 %0, %1, %2;") F16(half_fma, "fma.rn.f16 %0, %1, %2, %3;")
F16(half_min, "min.f16 %0, %1, %2;") F16(half_max_nan, "max.NaN.f16 %0, %1, %2;") F16(half_relu, "fma.rn.relu.f16 %0, %1, %2, %3;")
F16(bf_add, "add.rn.bf16 %0, %1, %2;") F16(bf_mul, "mul.rn.bf16 %0, %1, %2;") F16(bf_fma, "fma.rn.bf16 %0, %1, %2, %3;") F16(bf_max, "max.bf16 %0, %1, %2;")

#define PAIR(name, op) extern "C" __global__ void name(const unsigned* x, unsigned* y) { \
  const int i = threadIdx.x; unsigned r; asm(op : "=r"(r) : "r"(x[3 * i]), "r"(x[3 * i + 1]), "r"(x[3 * i + 2])); y[i] = r; }
PAIR(half2_fma, "fma.rn.f16x2 %0, %1, %2, %3;") PAIR(bf2_fma, "fma.rn.bf16x2 %0, %1, %2, %3;") PAIR(half2_add, "add.f16x2 %0, %1, %2;")

extern "C" __global__ void from_float(const float* x, unsigned* y) {
  const int i = threadIdx.x;
  const float a = x[2 * i], b = x[2 * i + 1];
  unsigned* o = y + 16 * i;
  unsigned short h;
#define ONE(n, op) asm(op : "=h"(h) : "f"(a)); o[n] = h;
#define WORD(n, op) asm(op : "=r"(o[n]) : "f"(a));
#define TWO(n, op) asm(op : "=r"(o[n]) : "f"(a), "f"(b));
  ONE(0, "cvt.rn.f16.f32 %0, %1;") ONE(1, "cvt.rz.f16.f32 %0, %1;") ONE(2, "cvt.rn.bf16.f32 %0, %1;") ONE(3, "cvt.rz.bf16.f32 %0, %1;")
  ONE(4, "cvt.rn.relu.bf16.f32 %0, %1;") TWO(5, "cvt.rn.f16x2.f32 %0, %1, %2;") TWO(6, "cvt.rn.bf16x2.f32 %0, %1, %2;")
  WORD(7, "cvt.rna.tf32.f32 %0, %1;") WORD(8, "cvt.rni.s32.f32 %0, %1;") WORD(9, "cvt.rzi.u32.f32 %0, %1;")
  WORD(10, "cvt.rni.sat.s8.f32 %0, %1;") WORD(11, "cvt.rzi.s16.f32 %0, %1;") WORD(12, "cvt.rmi.s32.f32 %0, %1;")
  WORD(13, "cvt.rpi.s32.f32 %0, %1;") ONE(14, "cvt.rn.satfinite.f16.f32 %0, %1;") TWO(15, "cvt.rn.relu.f16x2.f32 %0, %1, %2;")
}
