// Every device function that all architectures have, for every type it is made for.
#include "tvmtune/copy.cuh"
#include "tvmtune/mma.cuh"
#include "tvmtune/barrier.cuh"
#include "tvmtune/quad.cuh"
#include "tvmtune/stream.cuh"
#include "tvmtune/warp.cuh"
using namespace tvmtune;

#define UNARY(f)                                                       \
  extern "C" __global__ void unary_##f(f32* a, f64* b) {               \
    a[threadIdx.x] = tvmtune::f(a[threadIdx.x]);                       \
    b[threadIdx.x] = tvmtune::f(b[threadIdx.x]);                       \
  }
UNARY(sqrt) UNARY(rsqrt) UNARY(exp) UNARY(ln) UNARY(tanh) UNARY(erf) UNARY(sin) UNARY(cos)
UNARY(exp2) UNARY(log2) UNARY(exp_m1) UNARY(ln_1p) UNARY(atan)
UNARY(floor) UNARY(ceil) UNARY(round) UNARY(abs)

#define BINARY(f)                                                      \
  extern "C" __global__ void binary_##f(f32* a, f64* b) {              \
    a[threadIdx.x] = tvmtune::f(a[threadIdx.x], a[0]);                 \
    b[threadIdx.x] = tvmtune::f(b[threadIdx.x], b[0]);                 \
  }
extern "C" __global__ void unary_tf32(f32* a) { a[threadIdx.x] = tvmtune::tf32(a[threadIdx.x]); }
BINARY(pow) BINARY(remainder) BINARY(min) BINARY(max)

#define INTEGER(f, OF)                                                   \
  extern "C" __global__ void integer_##f(i8* a, u8* b, i32* c, i64* d) { \
    const int i = threadIdx.x;                                           \
    a[i] = tvmtune::f(OF(a));                                            \
    b[i] = tvmtune::f(OF(b));                                            \
    c[i] = tvmtune::f(OF(c));                                            \
    d[i] = tvmtune::f(OF(d));                                            \
  }
#define ONE(x) x[i]
#define TWO(x) x[i], x[0]
INTEGER(wrapping_neg, ONE) INTEGER(wrapping_abs, ONE)
INTEGER(wrapping_add, TWO) INTEGER(wrapping_sub, TWO) INTEGER(wrapping_mul, TWO)
INTEGER(bit_not, ONE) INTEGER(bit_and, TWO) INTEGER(bit_or, TWO) INTEGER(bit_xor, TWO)
INTEGER(shl, TWO) INTEGER(shr, TWO)
INTEGER(quotient, TWO) INTEGER(remainder, TWO) INTEGER(min, TWO) INTEGER(max, TWO)
INTEGER(div_floor, TWO) INTEGER(mod_floor, TWO)

#define CAST(T)                                                                                  \
  extern "C" __global__ void cast_##T(T* to, i8 a, u8 b, i32 c, i64 d, f16 e, bf16 f, f32 g,     \
                                      f64 h, bool i) {                                           \
    to[0] = cast<T>(a), to[1] = cast<T>(b), to[2] = cast<T>(c), to[3] = cast<T>(d);              \
    to[4] = cast<T>(e), to[5] = cast<T>(f), to[6] = cast<T>(g), to[7] = cast<T>(h);              \
    to[8] = cast<T>(i);                                                                          \
  }
CAST(i8) CAST(u8) CAST(i32) CAST(i64) CAST(f16) CAST(bf16) CAST(f32) CAST(f64) CAST(bool)

#define REDUCE(op, T)                                                                            \
  extern "C" __global__ void __launch_bounds__(96) reduce_##op##_##T(T* a) {                     \
    __shared__ T partials[3];                                                                    \
    a[threadIdx.x] = group_reduce<op, 96>(a[threadIdx.x], partials);                             \
    a[threadIdx.x] = shuffle(warp_reduce<op, 8>(a[threadIdx.x]), 7);                             \
  }
REDUCE(Sum, f32) REDUCE(Sum, f64) REDUCE(Sum, i8) REDUCE(Sum, i32) REDUCE(Sum, i64)
REDUCE(Product, f32) REDUCE(Product, f64) REDUCE(Product, i32) REDUCE(Product, i64)
REDUCE(Min, f32) REDUCE(Min, f64) REDUCE(Min, u8) REDUCE(Min, i32) REDUCE(Min, i64)
REDUCE(Max, f32) REDUCE(Max, f64) REDUCE(Max, i8) REDUCE(Max, i32) REDUCE(Max, i64)
REDUCE(Any, bool) REDUCE(All, bool)

#define QUAD(T)                                                                                  \
  extern "C" __global__ void quad_##T(T* a) {                                                    \
    T pairs[8];                                                                                  \
    for (int n = 0; n < 8; ++n) pairs[n] = a[8 * threadIdx.x + n];                               \
    quad_transpose<true, false>(pairs);                                                          \
    if (threadIdx.x < 4) quad_transpose<false, true>(pairs);                                     \
    for (int n = 0; n < 8; ++n) a[8 * threadIdx.x + n] = pairs[n];                               \
  }
QUAD(f16) QUAD(bf16) QUAD(i8) QUAD(u8) QUAD(bool)

#define VECTOR(T, N)                                                                             \
  extern "C" __global__ void vector_##T##_##N(T* a, const T* b) {                                \
    using V = Vec<T, N>;                                                                         \
    V x = load<V>(a + N * threadIdx.x), y = load_constant<V>(b + N * threadIdx.x);               \
    for (int n = 0; n < N; n++) x[n] = cast<T>(cast<f32>(x[n]) + cast<f32>(y[n]));               \
    store(a + N * threadIdx.x, x);                                                               \
  }
VECTOR(f32, 1) VECTOR(f32, 2) VECTOR(f32, 4) VECTOR(f16, 8) VECTOR(bf16, 2) VECTOR(i8, 16)
VECTOR(u8, 1) VECTOR(f64, 2) VECTOR(i64, 1)

extern "C" __global__ void matrix(f32* a) {
  __shared__ __align__(16) u16 tile[8 * 64];
  u32 four[4], two[2], one[1];
  load_matrices<4>(four, tile + swizzle<8>(threadIdx.x, 1) * 8);
  load_matrices<2, true>(two, tile + swizzle<2>(threadIdx.x, 1) * 8);
  load_matrices<1>(one, tile);
  f32 d[4] = {};
  mma_m16n8k8_f16(d, two, pack(f16{1}, f16{2}) + one[0]);
  barrier_arrive<2, 64>();
  barrier_wait<1, 64>();
  a[threadIdx.x] = d[0] + d[1] + d[2] + d[3] + four[0];
}

extern "C" __global__ void narrow(f16* a, bf16* b, const f32* x) {
  a[threadIdx.x] = narrow_exp<f16>(x[threadIdx.x]);
  b[threadIdx.x] = narrow_exp<bf16>(x[threadIdx.x]);
}

// Which block has each iteration of each tile, and how many have one that is joined.
extern "C" __global__ void parts(i32* block_of, i32* joined, i32 blocks, i32 tiles, i32 depth) {
  const Shares<i32> shares(i32(blockIdx.x), blocks, tiles, depth);
  for (i32 part = 0; part < shares.parts(); part++) {
    const i32 at = shares.tile(part) * depth;
    for (i32 k = shares.first(part); k < shares.end(part); k++) block_of[at + k] = shares.block;
  }
  if (const i32 n = shares.joined()) joined[shares.begun()] = n;
}
