// Lanes that exchange values, and reductions over a warp or a block. All architectures.
//
// All lanes of a warp call these together. The order in which values are combined depends on
// nothing but the shape, so that results are the same in every run.
#pragma once

#include "tvmtune/math.cuh"

namespace tvmtune {

enum : int { WARP = 32 };

// The value that another lane passed.
template <class T> TVMTUNE_FN T shuffle(T value, int lane) {
  if constexpr (sizeof(T) < 4) return T(__shfl_sync(0xffffffffu, i32(value), lane));
  else return __shfl_sync(0xffffffffu, value, lane);
}

// The value that the lane passed whose number differs in these bits.
template <class T> TVMTUNE_FN T shuffle_xor(T value, int bits) {
  if constexpr (sizeof(T) < 4) return T(__shfl_xor_sync(0xffffffffu, i32(value), bits));
  else return __shfl_xor_sync(0xffffffffu, value, bits);
}

// Reducers: the combination of two values, and the value that changes no other.
struct Sum {
  template <class T> static TVMTUNE_FN T unit() { return T(0); }
  template <class T> static TVMTUNE_FN T of(T a, T b) {
    if constexpr (IsFloat<T>::value) return a + b;
    else return wrapping_add(a, b);
  }
};

struct Product {
  template <class T> static TVMTUNE_FN T unit() { return T(1); }
  template <class T> static TVMTUNE_FN T of(T a, T b) {
    if constexpr (IsFloat<T>::value) return a * b;
    else return wrapping_mul(a, b);
  }
};

struct Min {
  template <class T> static TVMTUNE_FN T unit() {
    if constexpr (IsFloat<T>::value) return T(__int_as_float(0x7f800000));
    else return Range<T>::greatest();
  }
  template <class T> static TVMTUNE_FN T of(T a, T b) { return min(a, b); }
};

struct Max {
  template <class T> static TVMTUNE_FN T unit() {
    if constexpr (IsFloat<T>::value) return T(-__int_as_float(0x7f800000));
    else return Range<T>::least();
  }
  template <class T> static TVMTUNE_FN T of(T a, T b) { return max(a, b); }
};

struct Any {
  template <class T> static TVMTUNE_FN T unit() { return false; }
  template <class T> static TVMTUNE_FN T of(T a, T b) { return a || b; }
};

struct All {
  template <class T> static TVMTUNE_FN T unit() { return true; }
  template <class T> static TVMTUNE_FN T of(T a, T b) { return a && b; }
};

// Over the lanes whose numbers differ in the bits below LANES, a power of two: each gets the
// result.
template <class Op, int LANES = WARP, class T> TVMTUNE_FN T warp_reduce(T value) {
  static_assert(LANES <= WARP && (LANES & (LANES - 1)) == 0, "a power of two");
#pragma unroll
  for (int bits = LANES / 2; bits > 0; bits /= 2) value = Op::of(value, shuffle_xor(value, bits));
  return value;
}

// Over THREADS threads in a row, whole warps; all threads of the block call it, and each gets the
// result of its group. `partials` is shared memory for a value of each warp of the block; it may be
// used again once this returned.
template <class Op, int THREADS, class T> TVMTUNE_FN T group_reduce(T value, T* partials) {
  static_assert(THREADS % WARP == 0 && THREADS <= 1024, "whole warps");
  enum : int { WARPS = THREADS / WARP };
  value = warp_reduce<Op>(value);
  if constexpr (WARPS > 1) {
    const int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    const int lane = thread % WARP;
    if (lane == 0) partials[thread / WARP] = value;
    __syncthreads();
    const int first = thread / THREADS * WARPS;
    value = lane < WARPS ? partials[first + lane] : Op::template unit<T>();
    value = warp_reduce<Op>(value);
    __syncthreads();
  }
  return value;
}

}  // namespace tvmtune
