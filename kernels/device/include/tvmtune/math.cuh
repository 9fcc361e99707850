// Arithmetic with the meaning that tensor programs give it: Rust's. All architectures.
//
// Elementary functions are those that NVRTC has built in, at their full accuracy (the CUDA
// programming guide: at most 2 units in the last place in f32, 4 for `pow`); `+ - * /` and `sqrt`
// round to the nearest.
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

#define TVMTUNE_FLOAT_FN(name, single, twice)                \
  TVMTUNE_FN f32 name(f32 x) { return single(x); }           \
  TVMTUNE_FN f64 name(f64 x) { return twice(x); }

TVMTUNE_FLOAT_FN(sqrt, __fsqrt_rn, __dsqrt_rn)
TVMTUNE_FLOAT_FN(rsqrt, ::rsqrtf, ::rsqrt)
TVMTUNE_FLOAT_FN(exp, ::expf, ::exp)
TVMTUNE_FLOAT_FN(ln, ::logf, ::log)
TVMTUNE_FLOAT_FN(exp2, ::exp2f, ::exp2)
TVMTUNE_FLOAT_FN(log2, ::log2f, ::log2)
TVMTUNE_FLOAT_FN(exp_m1, ::expm1f, ::expm1)
TVMTUNE_FLOAT_FN(ln_1p, ::log1pf, ::log1p)
TVMTUNE_FLOAT_FN(tanh, ::tanhf, ::tanh)
TVMTUNE_FLOAT_FN(erf, ::erff, ::erf)
TVMTUNE_FLOAT_FN(sin, ::sinf, ::sin)
TVMTUNE_FLOAT_FN(cos, ::cosf, ::cos)
TVMTUNE_FLOAT_FN(atan, ::atanf, ::atan)
TVMTUNE_FLOAT_FN(floor, ::floorf, ::floor)
TVMTUNE_FLOAT_FN(ceil, ::ceilf, ::ceil)
TVMTUNE_FLOAT_FN(round, ::rintf, ::rint)  // ties to even
#undef TVMTUNE_FLOAT_FN

// e^x in 16 bits: rounded to the nearest but where x is within 1/100 of a unit of the last place of
// a tie. Two instructions, and the rounding.
template <class T> TVMTUNE_FN T narrow_exp(f32 x) {
  static_assert(sizeof(T) == 2, "wider numbers see how near it is");
  f32 power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.4426950408889634f));
  return cast<T>(power);
}

// The bits of the nearest number whose lower 13 bits are 0, ties to even.
TVMTUNE_FN u32 to_tf32(f32 x) {
  u32 rounded;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
#elif __CUDA_ARCH__ >= 800
  // This takes ties away from zero: to the odd number, or to the even one.
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  const bool is_tie = (__float_as_uint(x) & 0x1fffu) == 0x1000u;
  rounded = is_tie ? rounded & ~0x2000u : rounded;
#else
  rounded = __float_as_uint(x);
  if (x == x) rounded = (rounded + 0xfff + (rounded >> 13 & 1)) & ~0x1fffu;
#endif
  return rounded;
}
TVMTUNE_FN f32 tf32(f32 x) { return __uint_as_float(to_tf32(x)); }

TVMTUNE_FN f32 pow(f32 x, f32 y) { return ::powf(x, y); }
TVMTUNE_FN f64 pow(f64 x, f64 y) { return ::pow(x, y); }

// The remainder of a division rounded towards zero, with the sign of the dividend.
TVMTUNE_FN f32 remainder(f32 a, f32 b) { return ::fmodf(a, b); }
TVMTUNE_FN f64 remainder(f64 a, f64 b) { return ::fmod(a, b); }

// Of a number and a NaN, the number.
TVMTUNE_FN f32 min(f32 a, f32 b) { return ::fminf(a, b); }
TVMTUNE_FN f32 max(f32 a, f32 b) { return ::fmaxf(a, b); }
TVMTUNE_FN f64 min(f64 a, f64 b) { return ::fmin(a, b); }
TVMTUNE_FN f64 max(f64 a, f64 b) { return ::fmax(a, b); }
template <class T> TVMTUNE_FN T min(T a, T b) { return b < a ? b : a; }
template <class T> TVMTUNE_FN T max(T a, T b) { return a < b ? b : a; }

TVMTUNE_FN f32 abs(f32 x) { return ::fabsf(x); }
TVMTUNE_FN f64 abs(f64 x) { return ::fabs(x); }

// Integers wrap. The compiler may assume that signed arithmetic does not overflow, so it is done
// in the unsigned type of the same size.
template <class T> struct Unsigned { using type = T; };
template <> struct Unsigned<i8> { using type = u8; };
template <> struct Unsigned<i32> { using type = u32; };
template <> struct Unsigned<i64> { using type = u64; };

template <class T> TVMTUNE_FN T wrapping_add(T a, T b) {
  using U = typename Unsigned<T>::type;
  return T(U(U(a) + U(b)));
}
template <class T> TVMTUNE_FN T wrapping_sub(T a, T b) {
  using U = typename Unsigned<T>::type;
  return T(U(U(a) - U(b)));
}
template <class T> TVMTUNE_FN T wrapping_mul(T a, T b) {
  using U = typename Unsigned<T>::type;
  return T(U(U(a) * U(b)));
}
template <class T> TVMTUNE_FN T wrapping_neg(T a) { return wrapping_sub(T(0), a); }
template <class T> TVMTUNE_FN T wrapping_abs(T a) {
  if constexpr (Range<T>::is_signed) return a < T(0) ? wrapping_neg(a) : a;
  else return a;
}

// Bits of integers. Amounts of shifts count modulo the bits of the type; signed integers that are
// shifted to the right are filled with their sign.
template <class T> TVMTUNE_FN T bit_and(T a, T b) { return T(a & b); }
template <class T> TVMTUNE_FN T bit_or(T a, T b) { return T(a | b); }
template <class T> TVMTUNE_FN T bit_xor(T a, T b) { return T(a ^ b); }
template <class T> TVMTUNE_FN T bit_not(T a) { return T(~a); }
template <class T> TVMTUNE_FN T shl(T a, T b) {
  using U = typename Unsigned<T>::type;
  return T(U(U(a) << (int(b) & int(8 * sizeof(T) - 1))));
}
template <class T> TVMTUNE_FN T shr(T a, T b) {
  return T(a >> (int(b) & int(8 * sizeof(T) - 1)));
}

// Rounded towards zero; 0 where the divisor is 0.
template <class T> TVMTUNE_FN T quotient(T a, T b) {
  if (b == T(0)) return T(0);
  if (Range<T>::is_signed && b == T(-1)) return wrapping_neg(a);
  return T(a / b);
}

// With the sign of the dividend; 0 where the divisor is 0.
template <class T> TVMTUNE_FN T remainder(T a, T b) {
  if (b == T(0) || (Range<T>::is_signed && b == T(-1))) return T(0);
  return T(a % b);
}

// Of indices, by a positive divisor: rounded down, and what that leaves.
template <class T> TVMTUNE_FN T div_floor(T a, T b) { return a / b - (a % b < 0 ? 1 : 0); }
template <class T> TVMTUNE_FN T mod_floor(T a, T b) { return a % b + (a % b < 0 ? b : 0); }

}  // namespace tvmtune
