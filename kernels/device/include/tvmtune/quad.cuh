// Exchange between the four lanes that have a row of an MMA fragment. All architectures.
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

// The bits of an element of 8 or 16 bits.
template <class T> TVMTUNE_FN u32 small_bits(T value) {
  static_assert(sizeof(T) <= 2, "two of them are one register");
  if constexpr (sizeof(T) == 1) return from_bits<u8>(value);
  else return from_bits<u16>(value);
}

// The element that has these lowest bits.
template <class T> TVMTUNE_FN T from_small_bits(u32 bits) {
  if constexpr (sizeof(T) == 1) return from_bits<T>(u8(bits));
  else return from_bits<T>(u16(bits));
}

// Each of four consecutive lanes has four pairs, one from each of four rows of eight elements.
// Afterwards lane q has row q: pair n of it is the pair that lane n had of it.
//
// All four lanes call this together; the whole warp does if it is CONVERGED. If it is ORDERED, a lane
// may then overwrite memory that another has read.
template <bool CONVERGED, bool ORDERED, class T> TVMTUNE_FN void quad_transpose(T (&pairs)[8]) {
  enum : int { WIDTH = 8 * int(sizeof(T)) };
  const u32 lane = threadIdx.x % 4;
  const u32 lanes = CONVERGED ? 0xffffffffu : 0xfu << (threadIdx.x % 32 - lane);
  u32 words[4];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    words[n] = small_bits(pairs[2 * n]) | small_bits(pairs[2 * n + 1]) << WIDTH;
  }
  // A matrix is transposed by blocks of half its size, then inside of these.
#pragma unroll
  for (int bit = 2; bit > 0; bit /= 2) {
    const bool is_upper = lane & bit;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (n & bit) continue;
      const u32 sent = is_upper ? words[n] : words[n | bit];
      const u32 received = __shfl_xor_sync(lanes, sent, bit);
      words[n] = is_upper ? received : words[n];
      words[n | bit] = is_upper ? words[n | bit] : received;
    }
  }
  if constexpr (ORDERED) __syncwarp(lanes);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    pairs[2 * n] = from_small_bits<T>(words[n]);
    pairs[2 * n + 1] = from_small_bits<T>(words[n] >> WIDTH);
  }
}

}  // namespace tvmtune
