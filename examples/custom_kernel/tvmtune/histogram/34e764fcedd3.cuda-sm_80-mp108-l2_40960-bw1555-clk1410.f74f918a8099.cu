#include "tvmtune/kernel.cuh"
using Index = int;
#define BINS 256
#define BLOCK 256
#define ITEMS 4
#define COPIES 2
#line 1 "kernels/histogram.cu"
// A histogram with privatization: each block counts in shared memory, in several copies so that threads
// that meet the same bin do not wait for one another, and adds its counts to those in memory at the end.
//
// Knobs: BLOCK threads of a block, ITEMS values of a thread, COPIES of the counts in a block.

#ifndef TVMTUNE_ONCE_kernels_2f_histogram_2e_h
#define TVMTUNE_ONCE_kernels_2f_histogram_2e_h
#line 1 "kernels/histogram.h"
// The parameters of the kernels of histogram.cu. The compiler of the device reads this header, and libclang
// does for the bindings in Rust.


// The shared memory that a block may have on any device without being asked.
#define HISTOGRAM_SHARED_BYTES (48 * 1024)

struct histogram_params {
  unsigned int n;  // values
  float lo;        // where the first bin begins
  float scale;     // bins in a unit
};
#endif
#line 7 "kernels/histogram.cu"
#ifndef TVMTUNE_ONCE_kernels_2f_shared_5f_counts_2e_cuh
#define TVMTUNE_ONCE_kernels_2f_shared_5f_counts_2e_cuh
#line 1 "kernels/shared_counts.cuh"
// Bins, and counts in shared memory.


#ifndef TVMTUNE_ONCE_kernels_2f_histogram_2e_h
#define TVMTUNE_ONCE_kernels_2f_histogram_2e_h
#line 1 "kernels/histogram.h"
// The parameters of the kernels of histogram.cu. The compiler of the device reads this header, and libclang
// does for the bindings in Rust.


// The shared memory that a block may have on any device without being asked.
#define HISTOGRAM_SHARED_BYTES (48 * 1024)

struct histogram_params {
  unsigned int n;  // values
  float lo;        // where the first bin begins
  float scale;     // bins in a unit
};
#endif
#line 5 "kernels/shared_counts.cuh"

// Values beyond the ends are in the outermost bins, and what is no number is in the first.
template <int N> __device__ int bin_of(float value, const histogram_params& params) {
  const float place = floorf((value - params.lo) * params.scale);
  return int(fminf(fmaxf(place, 0.0f), float(N - 1)));
}

template <int N, int THREADS> __device__ void clear_counts(int* shared) {
  for (int n = threadIdx.x; n < N; n += THREADS) shared[n] = 0;
}

// Adds the copies of each count, and what is not zero to the counts in memory.
template <int N_COPIES, int N, int THREADS> __device__ void add_counts(const int* shared, int* counts) {
  for (int n = threadIdx.x; n < N; n += THREADS) {
    int sum = 0;
    for (int copy = 0; copy < N_COPIES; ++copy) sum += shared[copy * N + n];
    if (sum > 0) atomicAdd(&counts[n], sum);
  }
}
#endif
#line 8 "kernels/histogram.cu"

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
#undef BINS
#undef BLOCK
#undef ITEMS
#undef COPIES
#line 1 "the layout of histogram_params"
static_assert(sizeof(histogram_params) == 12, "the bindings of histogram_params are of another struct");
static_assert(__INTADDR__(&(((histogram_params*)0)->n)) == 0, "the bindings of histogram_params are of another struct");
static_assert(sizeof(((histogram_params*)0)->n) == 4, "the bindings of histogram_params are of another struct");
static_assert(__INTADDR__(&(((histogram_params*)0)->lo)) == 4, "the bindings of histogram_params are of another struct");
static_assert(sizeof(((histogram_params*)0)->lo) == 4, "the bindings of histogram_params are of another struct");
static_assert(__INTADDR__(&(((histogram_params*)0)->scale)) == 8, "the bindings of histogram_params are of another struct");
static_assert(sizeof(((histogram_params*)0)->scale) == 4, "the bindings of histogram_params are of another struct");
#line 1 "the parameters of clear"
static_assert(tvmtune::Takes<decltype(&clear), const tvmtune::f32*, tvmtune::i32*, histogram_params>::value, "expected extern \"C\" __global__ void clear(const f32*, i32*, histogram_params)");
#line 1 "the parameters of count"
static_assert(tvmtune::Takes<decltype(&count), const tvmtune::f32*, tvmtune::i32*, histogram_params>::value, "expected extern \"C\" __global__ void count(const f32*, i32*, histogram_params)");
