// Bins, and counts in shared memory.
#pragma once

#include "histogram.h"

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
