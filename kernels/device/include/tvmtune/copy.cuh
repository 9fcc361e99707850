// Moving elements: vector loads and stores (all architectures), and copies to shared memory that
// run on while the thread goes on (cp.async, sm_80 and above).
#pragma once

#include "tvmtune/types.cuh"

namespace tvmtune {

template <int BYTES> struct Word;
template <> struct Word<1> { using type = u8; };
template <> struct Word<2> { using type = u16; };
template <> struct Word<4> { using type = u32; };
template <> struct Word<8> { using type = uint2; };
template <> struct Word<16> { using type = uint4; };

// A vector in one instruction: V is a Vec of 1, 2, 4, 8 or 16 bytes, and so aligned.
template <class V> TVMTUNE_FN V load(const void* from) {
  return from_bits<V>(*reinterpret_cast<const typename Word<sizeof(V)>::type*>(from));
}

// As `load`, of global memory that nobody writes while the kernel runs.
template <class V> TVMTUNE_FN V load_constant(const void* from) {
  return from_bits<V>(__ldg(reinterpret_cast<const typename Word<sizeof(V)>::type*>(from)));
}

template <class V> TVMTUNE_FN void store(void* to, V value) {
  using W = typename Word<sizeof(V)>::type;
  *reinterpret_cast<W*>(to) = from_bits<W>(value);
}

// The place of a 16-byte chunk of a row of CHUNKS of them (a power of two), so that 8 rows at one
// chunk lie in different banks.
template <int CHUNKS> TVMTUNE_FN int swizzle(int row, int chunk) {
  static_assert((CHUNKS & (CHUNKS - 1)) == 0, "a power of two");
  if constexpr (CHUNKS >= 8) return chunk ^ (row & 7);
  else return chunk ^ ((row / (8 / CHUNKS)) & (CHUNKS - 1));
}

// Copies BYTES (4, 8 or 16) from global to shared memory; where not `valid`, writes zeros and
// reads nothing. The copy runs on while the thread does, and has happened once its group was
// waited for; below sm_80 it happens at once. 16 bytes bypass the first-level cache.
template <int BYTES> TVMTUNE_FN void copy_async(void* shared, const void* global, bool valid = true) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "what the instruction copies");
#if __CUDA_ARCH__ >= 800
  const u32 to = shared_address(shared);
  const u32 n_bytes = valid ? BYTES : 0;
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(to), "l"(global), "r"(n_bytes) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                 :: "r"(to), "l"(global), "r"(n_bytes), "n"(BYTES) : "memory");
  }
#else
  using W = typename Word<BYTES>::type;
  W word{};
  if (valid) word = *reinterpret_cast<const W*>(global);
  *reinterpret_cast<W*>(shared) = word;
#endif
}

// Ends a group of copies.
TVMTUNE_FN void copy_async_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all groups of this thread but the last N are done.
template <int N> TVMTUNE_FN void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}

// The place of an element in shared memory whose 16-byte chunks are permuted within rows of
// 32, 64 or 128 bytes, so that 8 chunks of a column are in different banks. Such a buffer starts at
// a multiple of 8 rows.
template <int ROW_BYTES, int ELEMENT_BYTES, class I> TVMTUNE_FN I permuted(I position) {
  constexpr int CHUNK = 16 / ELEMENT_BYTES, LINE = 128 / ELEMENT_BYTES;
  return position ^ (position / LINE % (ROW_BYTES / 16) * CHUNK);
}

}  // namespace tvmtune
