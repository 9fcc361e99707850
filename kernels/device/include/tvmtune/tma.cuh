// Copies of whole boxes of tensors between global and shared memory, which one thread issues: the
// tensor memory accelerator. sm_90 and above.
//
// Coordinates count elements, the innermost dimension first. What lies outside of the tensor is
// read as 0 and not written.
#pragma once

#include "tvmtune/types.cuh"

// A parameter of a kernel through which it knows a tensor.
#define TVMTUNE_TENSOR_MAP const __grid_constant__ tvmtune::TensorMap

namespace tvmtune {

// The tensor map that the driver encodes of a tensor and its boxes: opaque.
struct alignas(64) TensorMap { u64 opaque[16]; };

#if __CUDA_ARCH__ >= 900
TVMTUNE_FN void tensor_prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// For a tensor of that rank: `tensor_load` of a box, whose bytes count as arrived at the barrier;
// `tensor_multicast`, the same into all blocks of the cluster whose bit is in `blocks`;
// `tensor_store`, which belongs to a group that `tensor_commit` ends.
#define TVMTUNE_TENSOR(rank, place_load, mask, place_store, registers, ...)                      \
  TVMTUNE_FN void tensor_load(void* to, const TensorMap& map, u64* barrier, __VA_ARGS__) {       \
    asm volatile(                                                                                \
        "cp.async.bulk.tensor." rank                                                             \
        ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " place_load       \
        "], [%2];"                                                                               \
        :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), registers           \
        : "memory");                                                                             \
  }                                                                                              \
  TVMTUNE_FN void tensor_multicast(void* to, const TensorMap& map, u64* barrier, u16 blocks,     \
                                   __VA_ARGS__) {                                                \
    asm volatile(                                                                                \
        "cp.async.bulk.tensor." rank                                                             \
        ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "          \
        "[%0], [%1, " place_load "], [%2], " mask ";"                                            \
        :: "r"(shared_address(to)), "l"(&map), "r"(shared_address(barrier)), registers,          \
           "h"(blocks) : "memory");                                                              \
  }                                                                                              \
  TVMTUNE_FN void tensor_store(const TensorMap& map, const void* from, __VA_ARGS__) {            \
    asm volatile(                                                                                \
        "cp.async.bulk.tensor." rank ".global.shared::cta.tile.bulk_group [%0, " place_store     \
        "], [%1];"                                                                               \
        :: "l"(&map), "r"(shared_address(from)), registers : "memory");                          \
  }

#define TVMTUNE_2 "r"(x), "r"(y)
#define TVMTUNE_3 TVMTUNE_2, "r"(z)
#define TVMTUNE_4 TVMTUNE_3, "r"(w)
#define TVMTUNE_5 TVMTUNE_4, "r"(v)
TVMTUNE_TENSOR("1d", "{%3}", "%4", "{%2}", "r"(x), int x)
TVMTUNE_TENSOR("2d", "{%3, %4}", "%5", "{%2, %3}", TVMTUNE_2, int x, int y)
TVMTUNE_TENSOR("3d", "{%3, %4, %5}", "%6", "{%2, %3, %4}", TVMTUNE_3, int x, int y, int z)
TVMTUNE_TENSOR("4d", "{%3, %4, %5, %6}", "%7", "{%2, %3, %4, %5}", TVMTUNE_4, int x, int y, int z,
               int w)
TVMTUNE_TENSOR("5d", "{%3, %4, %5, %6, %7}", "%8", "{%2, %3, %4, %5, %6}", TVMTUNE_5, int x, int y,
               int z, int w, int v)
#undef TVMTUNE_2
#undef TVMTUNE_3
#undef TVMTUNE_4
#undef TVMTUNE_5
#undef TVMTUNE_TENSOR

// Consecutive bytes, a multiple of 16, as a box without a map.
TVMTUNE_FN void bulk_load(void* to, const void* from, u32 n_bytes, u64* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :: "r"(shared_address(to)), "l"(from), "r"(n_bytes), "r"(shared_address(barrier)) : "memory");
}
TVMTUNE_FN void bulk_store(void* to, const void* from, u32 n_bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(to), "r"(shared_address(from)), "r"(n_bytes) : "memory");
}

// Ends a group of stores.
TVMTUNE_FN void tensor_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all groups of this thread but the last N have been read from shared memory.
template <int N> TVMTUNE_FN void tensor_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(N) : "memory");
}

// Waits until all groups of this thread but the last N are done.
template <int N> TVMTUNE_FN void tensor_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(N) : "memory");
}
#endif

}  // namespace tvmtune
