// Matrix instructions of a warpgroup (128 threads), whose operands lie in shared memory: wgmma.
// sm_90a only.
//
// A kernel names the shapes it uses, so that it does not pay for compiling the others:
//
//     TVMTUNE_WGMMA(bf16, 128)
//
// declares, in namespace tvmtune, `wgmma_bf16(d, a, b, add)`: d (64 x 128) = a * b, plus d if `add`,
// where d is an array of 64 f32, or what `accumulators` makes of 64 that lie elsewhere. Element types are f16, bf16, tf32 (f32 in memory), i8 and u8; N is 8 to 256 in steps
// of 8 (of 16 from 32 on for integers). `a` is a descriptor, or four registers that hold the
// warpgroup's rows as m16n8k.. has them; `b` is a descriptor. For f16 and bf16, template arguments
// <1, 0> say that a, <0, 1> that b is stored with its other dimension innermost.
//
// Warp w of the group and lane l hold rows 16w + l / 4 (and + 8 for d[2], d[3] of every four),
// columns 8j + 2 (l % 4) and one more in d[4j], d[4j + 1].
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

// Swizzles of rows of shared memory: 16-byte chunks are permuted by the lower bits of the row.
enum Swizzle : u32 { SWIZZLE_NONE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

// The descriptor of an operand in shared memory. Swizzled tiles start at a multiple of 8 rows.
TVMTUNE_FN u64 wgmma_operand(u32 address, u32 leading_bytes, u32 stride_bytes, Swizzle swizzle) {
  return u64((address & 0x3ffff) >> 4) | (u64((leading_bytes & 0x3ffff) >> 4) << 16) |
         (u64((stride_bytes & 0x3ffff) >> 4) << 32) | (u64(swizzle) << 62);
}

// N accumulators that are not one after the other: `place(n)` is the n-th.
template <int N, class Place> struct Accumulators {
  Place place;
  TVMTUNE_FN auto& operator[](int n) const { return place(n); }
};
template <int N, class Place> TVMTUNE_FN Accumulators<N, Place> accumulators(Place place) {
  return {place};
}

// The number of accumulators, and a type that exists only if there are as many as wanted.
template <class D> struct Count;
template <class T, int N> struct Count<T (&)[N]> { enum : int { value = N }; };
template <int N, class Place> struct Count<Accumulators<N, Place>> { enum : int { value = N }; };
template <int HAS, int WANTED> struct SameCount;
template <int N> struct SameCount<N, N> { using type = int; };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// Before the first matrix instruction, and after registers it uses were written.
TVMTUNE_FN void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of matrix instructions.
TVMTUNE_FN void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all groups but the last N are done.
template <int N> TVMTUNE_FN void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}

// Keeps the compiler from moving uses of the accumulators, or what makes first operands that are in
// registers, across this place.
template <int N> TVMTUNE_FN void wgmma_hold(f32 (&d)[N]) {
#pragma unroll
  for (int n = 0; n < N; n++) asm volatile("" : "+f"(d[n]) :: "memory");
}
template <int N> TVMTUNE_FN void wgmma_hold(i32 (&d)[N]) {
#pragma unroll
  for (int n = 0; n < N; n++) asm volatile("" : "+r"(d[n]) :: "memory");
}
template <int N> TVMTUNE_FN void wgmma_hold(u32 (&a)[N][4]) {
#pragma unroll
  for (int n = 0; n < 4 * N; n++) asm volatile("" : "+r"(a[n / 4][n % 4]) :: "memory");
}
#endif

}  // namespace tvmtune

#define TVMTUNE_WGMMA(type, N)  \
  namespace tvmtune {           \
  TVMTUNE_WGMMA_##type(N)       \
  }

#define TVMTUNE_WGMMA_f16(N) TVMTUNE_WGMMA_##N(TVMTUNE_WGMMA_HALVES, wgmma_f16, "k16.f32.f16.f16")
#define TVMTUNE_WGMMA_bf16(N) TVMTUNE_WGMMA_##N(TVMTUNE_WGMMA_HALVES, wgmma_bf16, "k16.f32.bf16.bf16")
#define TVMTUNE_WGMMA_tf32(N) \
  TVMTUNE_WGMMA_##N(TVMTUNE_WGMMA_PLAIN, wgmma_tf32, "k8.f32.tf32.tf32", f32, "f", ", 1, 1")
#define TVMTUNE_WGMMA_i8(N) \
  TVMTUNE_WGMMA_##N(TVMTUNE_WGMMA_PLAIN, wgmma_i8, "k32.s32.s8.s8", i32, "r", "")
#define TVMTUNE_WGMMA_u8(N) \
  TVMTUNE_WGMMA_##N(TVMTUNE_WGMMA_PLAIN, wgmma_u8, "k32.s32.u8.u8", i32, "r", "")

// Only for what has so many accumulators.
#define TVMTUNE_COUNT(D, n) typename SameCount<Count<D>::value, n>::type = 0

// Operands after the accumulators are numbered r0, the number of accumulators, to r6.
#define TVMTUNE_WGMMA_HALVES(N, r0, r1, r2, r3, r4, r5, r6, name, form)                         \
  template <int A = 0, int B = 0, class D, TVMTUNE_COUNT(D, r0)>                                 \
  TVMTUNE_FN void name(D&& d, u64 a, u64 b, bool add) {                                  \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #r2 ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #N form " {" TVMTUNE_D##r0 "}, "           \
                 "%" #r0 ", %" #r1 ", p, 1, 1, %" #r3 ", %" #r4 "; }"                           \
                 : TVMTUNE_O##r0("f") : "l"(a), "l"(b), "r"(i32(add)), "n"(A), "n"(B));         \
  }                                                                                             \
  template <int A = 0, int B = 0, class D, TVMTUNE_COUNT(D, r0)>                                 \
  TVMTUNE_FN void name(D&& d, const u32 (&a)[4], u64 b, bool add) {                      \
    static_assert(A == 0, "registers have one order");                                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #r5 ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #N form " {" TVMTUNE_D##r0 "}, "           \
                 "{%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, 1, 1, %" #r6 "; }"     \
                 : TVMTUNE_O##r0("f")                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(i32(add)), "n"(B));  \
  }

#define TVMTUNE_WGMMA_PLAIN(N, r0, r1, r2, r3, r4, r5, r6, name, form, element, letter, signs)  \
  template <class D, TVMTUNE_COUNT(D, r0)>                                                       \
  TVMTUNE_FN void name(D&& d, u64 a, u64 b, bool add) {                                         \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #r2 ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #N form " {" TVMTUNE_D##r0 "}, "           \
                 "%" #r0 ", %" #r1 ", p" signs "; }"                                            \
                 : TVMTUNE_O##r0(letter) : "l"(a), "l"(b), "r"(i32(add)));                      \
  }                                                                                             \
  template <class D, TVMTUNE_COUNT(D, r0)>                                                       \
  TVMTUNE_FN void name(D&& d, const u32 (&a)[4], u64 b, bool add) {                             \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #r5 ", 0;\n"                                \
                 "wgmma.mma_async.sync.aligned.m64n" #N form " {" TVMTUNE_D##r0 "}, "           \
                 "{%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p" signs "; }"            \
                 : TVMTUNE_O##r0(letter)                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(i32(add)));          \
  }

// For each N: the number of accumulators a thread, and the six numbers that follow.
#define TVMTUNE_WGMMA_8(FORM, ...) FORM(8, 4, 5, 6, 7, 8, 9, 10, __VA_ARGS__)
#define TVMTUNE_WGMMA_16(FORM, ...) FORM(16, 8, 9, 10, 11, 12, 13, 14, __VA_ARGS__)
#define TVMTUNE_WGMMA_24(FORM, ...) FORM(24, 12, 13, 14, 15, 16, 17, 18, __VA_ARGS__)
#define TVMTUNE_WGMMA_32(FORM, ...) FORM(32, 16, 17, 18, 19, 20, 21, 22, __VA_ARGS__)
#define TVMTUNE_WGMMA_40(FORM, ...) FORM(40, 20, 21, 22, 23, 24, 25, 26, __VA_ARGS__)
#define TVMTUNE_WGMMA_48(FORM, ...) FORM(48, 24, 25, 26, 27, 28, 29, 30, __VA_ARGS__)
#define TVMTUNE_WGMMA_56(FORM, ...) FORM(56, 28, 29, 30, 31, 32, 33, 34, __VA_ARGS__)
#define TVMTUNE_WGMMA_64(FORM, ...) FORM(64, 32, 33, 34, 35, 36, 37, 38, __VA_ARGS__)
#define TVMTUNE_WGMMA_72(FORM, ...) FORM(72, 36, 37, 38, 39, 40, 41, 42, __VA_ARGS__)
#define TVMTUNE_WGMMA_80(FORM, ...) FORM(80, 40, 41, 42, 43, 44, 45, 46, __VA_ARGS__)
#define TVMTUNE_WGMMA_88(FORM, ...) FORM(88, 44, 45, 46, 47, 48, 49, 50, __VA_ARGS__)
#define TVMTUNE_WGMMA_96(FORM, ...) FORM(96, 48, 49, 50, 51, 52, 53, 54, __VA_ARGS__)
#define TVMTUNE_WGMMA_104(FORM, ...) FORM(104, 52, 53, 54, 55, 56, 57, 58, __VA_ARGS__)
#define TVMTUNE_WGMMA_112(FORM, ...) FORM(112, 56, 57, 58, 59, 60, 61, 62, __VA_ARGS__)
#define TVMTUNE_WGMMA_120(FORM, ...) FORM(120, 60, 61, 62, 63, 64, 65, 66, __VA_ARGS__)
#define TVMTUNE_WGMMA_128(FORM, ...) FORM(128, 64, 65, 66, 67, 68, 69, 70, __VA_ARGS__)
#define TVMTUNE_WGMMA_136(FORM, ...) FORM(136, 68, 69, 70, 71, 72, 73, 74, __VA_ARGS__)
#define TVMTUNE_WGMMA_144(FORM, ...) FORM(144, 72, 73, 74, 75, 76, 77, 78, __VA_ARGS__)
#define TVMTUNE_WGMMA_152(FORM, ...) FORM(152, 76, 77, 78, 79, 80, 81, 82, __VA_ARGS__)
#define TVMTUNE_WGMMA_160(FORM, ...) FORM(160, 80, 81, 82, 83, 84, 85, 86, __VA_ARGS__)
#define TVMTUNE_WGMMA_168(FORM, ...) FORM(168, 84, 85, 86, 87, 88, 89, 90, __VA_ARGS__)
#define TVMTUNE_WGMMA_176(FORM, ...) FORM(176, 88, 89, 90, 91, 92, 93, 94, __VA_ARGS__)
#define TVMTUNE_WGMMA_184(FORM, ...) FORM(184, 92, 93, 94, 95, 96, 97, 98, __VA_ARGS__)
#define TVMTUNE_WGMMA_192(FORM, ...) FORM(192, 96, 97, 98, 99, 100, 101, 102, __VA_ARGS__)
#define TVMTUNE_WGMMA_200(FORM, ...) FORM(200, 100, 101, 102, 103, 104, 105, 106, __VA_ARGS__)
#define TVMTUNE_WGMMA_208(FORM, ...) FORM(208, 104, 105, 106, 107, 108, 109, 110, __VA_ARGS__)
#define TVMTUNE_WGMMA_216(FORM, ...) FORM(216, 108, 109, 110, 111, 112, 113, 114, __VA_ARGS__)
#define TVMTUNE_WGMMA_224(FORM, ...) FORM(224, 112, 113, 114, 115, 116, 117, 118, __VA_ARGS__)
#define TVMTUNE_WGMMA_232(FORM, ...) FORM(232, 116, 117, 118, 119, 120, 121, 122, __VA_ARGS__)
#define TVMTUNE_WGMMA_240(FORM, ...) FORM(240, 120, 121, 122, 123, 124, 125, 126, __VA_ARGS__)
#define TVMTUNE_WGMMA_248(FORM, ...) FORM(248, 124, 125, 126, 127, 128, 129, 130, __VA_ARGS__)
#define TVMTUNE_WGMMA_256(FORM, ...) FORM(256, 128, 129, 130, 131, 132, 133, 134, __VA_ARGS__)

// The accumulators in the text of an instruction, and as its operands.
#define TVMTUNE_D4 "%0, %1, %2, %3"
#define TVMTUNE_D8 TVMTUNE_D4 ", %4, %5, %6, %7"
#define TVMTUNE_D12 TVMTUNE_D8 ", %8, %9, %10, %11"
#define TVMTUNE_D16 TVMTUNE_D12 ", %12, %13, %14, %15"
#define TVMTUNE_D20 TVMTUNE_D16 ", %16, %17, %18, %19"
#define TVMTUNE_D24 TVMTUNE_D20 ", %20, %21, %22, %23"
#define TVMTUNE_D28 TVMTUNE_D24 ", %24, %25, %26, %27"
#define TVMTUNE_D32 TVMTUNE_D28 ", %28, %29, %30, %31"
#define TVMTUNE_D36 TVMTUNE_D32 ", %32, %33, %34, %35"
#define TVMTUNE_D40 TVMTUNE_D36 ", %36, %37, %38, %39"
#define TVMTUNE_D44 TVMTUNE_D40 ", %40, %41, %42, %43"
#define TVMTUNE_D48 TVMTUNE_D44 ", %44, %45, %46, %47"
#define TVMTUNE_D52 TVMTUNE_D48 ", %48, %49, %50, %51"
#define TVMTUNE_D56 TVMTUNE_D52 ", %52, %53, %54, %55"
#define TVMTUNE_D60 TVMTUNE_D56 ", %56, %57, %58, %59"
#define TVMTUNE_D64 TVMTUNE_D60 ", %60, %61, %62, %63"
#define TVMTUNE_D68 TVMTUNE_D64 ", %64, %65, %66, %67"
#define TVMTUNE_D72 TVMTUNE_D68 ", %68, %69, %70, %71"
#define TVMTUNE_D76 TVMTUNE_D72 ", %72, %73, %74, %75"
#define TVMTUNE_D80 TVMTUNE_D76 ", %76, %77, %78, %79"
#define TVMTUNE_D84 TVMTUNE_D80 ", %80, %81, %82, %83"
#define TVMTUNE_D88 TVMTUNE_D84 ", %84, %85, %86, %87"
#define TVMTUNE_D92 TVMTUNE_D88 ", %88, %89, %90, %91"
#define TVMTUNE_D96 TVMTUNE_D92 ", %92, %93, %94, %95"
#define TVMTUNE_D100 TVMTUNE_D96 ", %96, %97, %98, %99"
#define TVMTUNE_D104 TVMTUNE_D100 ", %100, %101, %102, %103"
#define TVMTUNE_D108 TVMTUNE_D104 ", %104, %105, %106, %107"
#define TVMTUNE_D112 TVMTUNE_D108 ", %108, %109, %110, %111"
#define TVMTUNE_D116 TVMTUNE_D112 ", %112, %113, %114, %115"
#define TVMTUNE_D120 TVMTUNE_D116 ", %116, %117, %118, %119"
#define TVMTUNE_D124 TVMTUNE_D120 ", %120, %121, %122, %123"
#define TVMTUNE_D128 TVMTUNE_D124 ", %124, %125, %126, %127"
#define TVMTUNE_QUAD(c, n) "+" c(d[n]), "+" c(d[n + 1]), "+" c(d[n + 2]), "+" c(d[n + 3])
#define TVMTUNE_O4(c) TVMTUNE_QUAD(c, 0)
#define TVMTUNE_O8(c) TVMTUNE_O4(c), TVMTUNE_QUAD(c, 4)
#define TVMTUNE_O12(c) TVMTUNE_O8(c), TVMTUNE_QUAD(c, 8)
#define TVMTUNE_O16(c) TVMTUNE_O12(c), TVMTUNE_QUAD(c, 12)
#define TVMTUNE_O20(c) TVMTUNE_O16(c), TVMTUNE_QUAD(c, 16)
#define TVMTUNE_O24(c) TVMTUNE_O20(c), TVMTUNE_QUAD(c, 20)
#define TVMTUNE_O28(c) TVMTUNE_O24(c), TVMTUNE_QUAD(c, 24)
#define TVMTUNE_O32(c) TVMTUNE_O28(c), TVMTUNE_QUAD(c, 28)
#define TVMTUNE_O36(c) TVMTUNE_O32(c), TVMTUNE_QUAD(c, 32)
#define TVMTUNE_O40(c) TVMTUNE_O36(c), TVMTUNE_QUAD(c, 36)
#define TVMTUNE_O44(c) TVMTUNE_O40(c), TVMTUNE_QUAD(c, 40)
#define TVMTUNE_O48(c) TVMTUNE_O44(c), TVMTUNE_QUAD(c, 44)
#define TVMTUNE_O52(c) TVMTUNE_O48(c), TVMTUNE_QUAD(c, 48)
#define TVMTUNE_O56(c) TVMTUNE_O52(c), TVMTUNE_QUAD(c, 52)
#define TVMTUNE_O60(c) TVMTUNE_O56(c), TVMTUNE_QUAD(c, 56)
#define TVMTUNE_O64(c) TVMTUNE_O60(c), TVMTUNE_QUAD(c, 60)
#define TVMTUNE_O68(c) TVMTUNE_O64(c), TVMTUNE_QUAD(c, 64)
#define TVMTUNE_O72(c) TVMTUNE_O68(c), TVMTUNE_QUAD(c, 68)
#define TVMTUNE_O76(c) TVMTUNE_O72(c), TVMTUNE_QUAD(c, 72)
#define TVMTUNE_O80(c) TVMTUNE_O76(c), TVMTUNE_QUAD(c, 76)
#define TVMTUNE_O84(c) TVMTUNE_O80(c), TVMTUNE_QUAD(c, 80)
#define TVMTUNE_O88(c) TVMTUNE_O84(c), TVMTUNE_QUAD(c, 84)
#define TVMTUNE_O92(c) TVMTUNE_O88(c), TVMTUNE_QUAD(c, 88)
#define TVMTUNE_O96(c) TVMTUNE_O92(c), TVMTUNE_QUAD(c, 92)
#define TVMTUNE_O100(c) TVMTUNE_O96(c), TVMTUNE_QUAD(c, 96)
#define TVMTUNE_O104(c) TVMTUNE_O100(c), TVMTUNE_QUAD(c, 100)
#define TVMTUNE_O108(c) TVMTUNE_O104(c), TVMTUNE_QUAD(c, 104)
#define TVMTUNE_O112(c) TVMTUNE_O108(c), TVMTUNE_QUAD(c, 108)
#define TVMTUNE_O116(c) TVMTUNE_O112(c), TVMTUNE_QUAD(c, 112)
#define TVMTUNE_O120(c) TVMTUNE_O116(c), TVMTUNE_QUAD(c, 116)
#define TVMTUNE_O124(c) TVMTUNE_O120(c), TVMTUNE_QUAD(c, 120)
#define TVMTUNE_O128(c) TVMTUNE_O124(c), TVMTUNE_QUAD(c, 124)
