// Matrix instructions of one warp: ldmatrix and m16n8k8 of f16 (sm_75), m16n8k16 of f16 and bf16,
// m16n8k8 of tf32 and m16n8k32 of 8-bit integers (sm_80), stmatrix (sm_90).
//
// Lane l of the warp has g = l / 4, q = l % 4. Accumulators d[0], d[1] are at row g, columns 2q and
// 2q + 1; d[2], d[3] at row g + 8. A is row-major, B column-major; registers hold neighbours in k.
#pragma once

#include "tvmtune/math.cuh"

namespace tvmtune {

// N (1, 2 or 4) matrices of 8 x 8 16-bit elements from shared memory: lane l gives the address of
// row l % 8 of matrix l / 8, and gets elements 2q and 2q + 1 of row g of each; transposed, of
// column g.
template <int N, bool TRANSPOSED = false>
TVMTUNE_FN void load_matrices(u32 (&to)[N], const void* row) {
  const u32 from = shared_address(row);
#define TVMTUNE_LDMATRIX(form, registers, ...)                                                   \
  if constexpr (TRANSPOSED)                                                                      \
    asm volatile("ldmatrix.sync.aligned.m8n8." form ".trans.shared.b16 " registers ";"           \
                 : __VA_ARGS__ : "r"(from) : "memory");                                          \
  else                                                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n8." form ".shared.b16 " registers ";"                 \
                 : __VA_ARGS__ : "r"(from) : "memory");
  if constexpr (N == 4) {
    TVMTUNE_LDMATRIX("x4", "{%0, %1, %2, %3}, [%4]", "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]))
  } else if constexpr (N == 2) {
    TVMTUNE_LDMATRIX("x2", "{%0, %1}, [%2]", "=r"(to[0]), "=r"(to[1]))
  } else {
    static_assert(N == 1, "1, 2 or 4 matrices");
    TVMTUNE_LDMATRIX("x1", "{%0}, [%1]", "=r"(to[0]))
  }
#undef TVMTUNE_LDMATRIX
}

#if __CUDA_ARCH__ >= 900
// The opposite of `load_matrices`.
template <int N, bool TRANSPOSED = false>
TVMTUNE_FN void store_matrices(void* row, const u32 (&from)[N]) {
  const u32 to = shared_address(row);
#define TVMTUNE_STMATRIX(form, registers, ...)                                                   \
  if constexpr (TRANSPOSED)                                                                      \
    asm volatile("stmatrix.sync.aligned.m8n8." form ".trans.shared.b16 [%0], " registers ";"     \
                 :: "r"(to), __VA_ARGS__ : "memory");                                            \
  else                                                                                           \
    asm volatile("stmatrix.sync.aligned.m8n8." form ".shared.b16 [%0], " registers ";"           \
                 :: "r"(to), __VA_ARGS__ : "memory");
  if constexpr (N == 4) {
    TVMTUNE_STMATRIX("x4", "{%1, %2, %3, %4}", "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]))
  } else if constexpr (N == 2) {
    TVMTUNE_STMATRIX("x2", "{%1, %2}", "r"(from[0]), "r"(from[1]))
  } else {
    static_assert(N == 1, "1, 2 or 4 matrices");
    TVMTUNE_STMATRIX("x1", "{%1}", "r"(from[0]))
  }
#undef TVMTUNE_STMATRIX
}
#endif

// d += a * b. The asm is not volatile: an accumulation that nobody reads may go.
#define TVMTUNE_MMA(name, accumulator, letter, form)                                             \
  TVMTUNE_FN void name(accumulator (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {              \
    asm("mma.sync.aligned." form                                                                 \
        " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                       \
        : "+" letter(d[0]), "+" letter(d[1]), "+" letter(d[2]), "+" letter(d[3])                 \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                     \
  }

// Registers a[0], a[1]: rows g and g + 8, k = 2q, 2q + 1; b: k = 2q, 2q + 1, column g.
TVMTUNE_FN void mma_m16n8k8_f16(f32 (&d)[4], const u32 (&a)[2], u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

#if __CUDA_ARCH__ >= 800
// a[0], a[1] as above; a[2], a[3]: k + 8; b[1]: k + 8.
TVMTUNE_MMA(mma_m16n8k16_f16, f32, "f", "m16n8k16.row.col.f32.f16.f16.f32")
TVMTUNE_MMA(mma_m16n8k16_bf16, f32, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")

// An element a register, made by `to_tf32`: a[0]: row g, k = q; a[1]: row g + 8; a[2], a[3]: k + 4;
// b[0]: k = q, column g; b[1]: k + 4.
TVMTUNE_MMA(mma_m16n8k8_tf32, f32, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")

// Four elements a register: a[0]: row g, k = 4q .. 4q + 3; a[1]: row g + 8; a[2], a[3]: k + 16;
// b[0]: k = 4q .. 4q + 3, column g; b[1]: k + 16.
TVMTUNE_MMA(mma_m16n8k32_i8_i8, i32, "r", "m16n8k32.row.col.s32.s8.s8.s32")
TVMTUNE_MMA(mma_m16n8k32_i8_u8, i32, "r", "m16n8k32.row.col.s32.s8.u8.s32")
TVMTUNE_MMA(mma_m16n8k32_u8_i8, i32, "r", "m16n8k32.row.col.s32.u8.s8.s32")
TVMTUNE_MMA(mma_m16n8k32_u8_u8, i32, "r", "m16n8k32.row.col.s32.u8.u8.s32")

// Rounds what was loaded as it lies.
template <int N>
TVMTUNE_FN void round_to_tf32(u32 (&elements)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) elements[i] = to_tf32(__uint_as_float(elements[i]));
}
#endif
#undef TVMTUNE_MMA

}  // namespace tvmtune
