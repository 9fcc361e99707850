// Names of types, storage of 16-bit floats, vectors, and conversions that mean what Rust's `as`
// means. All architectures. No CUDA header is needed: NVRTC has none.
#pragma once

#define TVMTUNE_FN __device__ __forceinline__

namespace tvmtune {

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;

// Storage only: arithmetic is done in f32.
struct alignas(2) f16 { u16 bits; };
struct alignas(2) bf16 { u16 bits; };

template <class A, class B> struct Same { enum : bool { value = false }; };
template <class A> struct Same<A, A> { enum : bool { value = true }; };

template <class T> struct IsFloat { enum : bool { value = Same<T, f32>::value || Same<T, f64>::value }; };
template <class T> struct IsSmall { enum : bool { value = Same<T, f16>::value || Same<T, bf16>::value }; };

// The least and the greatest value of an integer type.
template <class T> struct Range {
  enum : bool { is_signed = T(-1) < T(0) };
  enum : int { bits = int(sizeof(T)) * 8 };
  static TVMTUNE_FN T least() { return is_signed ? T(u64(1) << (bits - 1)) : T(0); }
  static TVMTUNE_FN T greatest() { return T(~least()); }
};

// The same bits as another type of that size.
template <class To, class From> TVMTUNE_FN To from_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "types of two sizes");
  union { From from; To to; } both;
  both.from = value;
  return both.to;
}

// N elements that lie together and are loaded and stored at once.
template <class T, int N> struct alignas(sizeof(T) * N) Vec {
  T lane[N];
  TVMTUNE_FN T& operator[](int n) { return lane[n]; }
  TVMTUNE_FN const T& operator[](int n) const { return lane[n]; }
};

TVMTUNE_FN f32 to_f32(f16 value) {
  f32 wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}

TVMTUNE_FN f32 to_f32(bf16 value) { return __uint_as_float(u32(value.bits) << 16); }

// To the nearest, ties to even.
TVMTUNE_FN f16 to_f16(f32 value) {
  f16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
}

// To the nearest, ties to even.
TVMTUNE_FN bf16 to_bf16(f32 value) {
#if __CUDA_ARCH__ >= 800
  bf16 narrow;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
#else
  const u32 bits = __float_as_uint(value);
  const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return bf16{u16(is_nan ? (bits >> 16) | 0x40 : rounded >> 16)};
#endif
}

// To an f32 from which rounding on to 16 bits rounds the f64 once: towards zero, with the last bit
// set where that dropped anything.
TVMTUNE_FN f32 to_odd(f64 value) {
  const f32 truncated = __double2float_rz(value);
  const u32 dropped = f64(truncated) != value;
  return __uint_as_float(__float_as_uint(truncated) | dropped);
}

// Towards zero; the nearest value there is where the type has no such value, and 0 for a NaN.
template <class To> TVMTUNE_FN To saturate(f64 value) {
  if (value != value) return To(0);
  if constexpr (sizeof(To) == 8) {
    return To(__double2ll_rz(value));
  } else {
    const i64 wide = __double2ll_rz(value);
    const i64 least = Range<To>::least(), greatest = Range<To>::greatest();
    return To(wide < least ? least : wide > greatest ? greatest : wide);
  }
}

template <class To> TVMTUNE_FN To saturate(f32 value) {
  if (value != value) return To(0);
  if constexpr (sizeof(To) == 8) {
    return To(__float2ll_rz(value));
  } else if constexpr (sizeof(To) == 4) {
    if constexpr (Range<To>::is_signed) return To(__float2int_rz(value));
    else return To(__float2uint_rz(value));
  } else {
    const i32 wide = __float2int_rz(value);
    const i32 least = Range<To>::least(), greatest = Range<To>::greatest();
    return To(wide < least ? least : wide > greatest ? greatest : wide);
  }
}

// `value as To` for i8, u8, i32, u32, i64, f16, bf16, f32, f64 and bool. Other unsigned types are not
// elements of tensors.
template <class To, class From> TVMTUNE_FN To cast(From value) {
  if constexpr (Same<To, From>::value) {
    return value;
  } else if constexpr (IsSmall<From>::value) {
    return cast<To>(to_f32(value));
  } else if constexpr (Same<To, f16>::value || Same<To, bf16>::value) {
    f32 near;
    if constexpr (Same<From, f32>::value) near = value;
    else near = to_odd(f64(value));
    if constexpr (Same<To, f16>::value) return to_f16(near);
    else return to_bf16(near);
  } else if constexpr (Same<To, bool>::value) {
    return value != From(0);
  } else if constexpr (IsFloat<From>::value && !IsFloat<To>::value) {
    return saturate<To>(value);
  } else {
    return To(value);
  }
}

// Two 16-bit elements in a register, the first one in the low half.
template <class T> TVMTUNE_FN u32 pack(T low, T high) {
  static_assert(sizeof(T) == 2, "two of them fill a register");
  return u32(from_bits<u16>(low)) | (u32(from_bits<u16>(high)) << 16);
}

// Four 8-bit elements in a register, the first one in the lowest byte.
template <class T> TVMTUNE_FN u32 pack(T first, T second, T third, T fourth) {
  static_assert(sizeof(T) == 1, "four of them fill a register");
  return u32(u8(first)) | (u32(u8(second)) << 8) | (u32(u8(third)) << 16) | (u32(u8(fourth)) << 24);
}

// The address of shared memory, as instructions want it.
TVMTUNE_FN u32 shared_address(const void* pointer) {
  return u32(__cvta_generic_to_shared(pointer));
}

}  // namespace tvmtune
