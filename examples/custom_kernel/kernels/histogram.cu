// A histogram with privatization: each block counts in shared memory, in several copies so that threads
// that meet the same bin do not wait for one another, and adds its counts to those in memory at the end.
//
// Knobs: BLOCK threads of a block, ITEMS values of a thread, COPIES of the counts in a block.

#include "histogram.h"
#include "shared_counts.cuh"

extern "C" __global__ void clear(const float*, int* counts, histogram_params) {
  counts[threadIdx.x] = 0;
}

extern "C" __global__ void count(const float* __restrict__ x, int* counts, histogram_params params) {
  extern __shared__ int shared[];
  clear_counts<COPIES * BINS, BLOCK>(shared);
  __syncthreads();
  int* mine = shared + threadIdx.x % COPIES * BINS;
  const unsigned int first = blockIdx.x * (BLOCK * ITEMS) + threadIdx.x;
#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {
    const unsigned int n = first + item * BLOCK;
    if (n < params.n) atomicAdd(&mine[bin_of<BINS>(x[n], params)], 1);
  }
  __syncthreads();
  add_counts<COPIES, BINS, BLOCK>(shared, counts);
}
