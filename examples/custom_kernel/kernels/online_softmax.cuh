// Softmax of scores that come one after the other, weighting rows of values (online softmax: Milakov and
// Gimelshein, 2018). Scores are in units of ln 2.
#pragma once

#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"

// A score of what is masked: its weight is 0 beside any other score, and no difference of two is a NaN.
#define MASKED_SCORE (-1e30f)

// The sums over the scores of some lanes, of which each has N columns of the values.
template <int N> struct OnlineSoftmax {
  float top = MASKED_SCORE;  // the greatest score
  float total = 0.0f;        // of the weights
  float sum[N] = {};         // of weighted values

  // Makes weights relative to a greater score; returns what older ones are multiplied by.
  __device__ void raise(float score) {
    const float next = fmaxf(top, score);
    const float factor = exp2f(top - next);
    top = next;
    total *= factor;
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] *= factor;
  }

  __device__ float weight(float score) { return exp2f(score - top); }

  __device__ void add(float weight, const float (&values)[N]) {
    total += weight;
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += weight * values[n];
  }

  // Adds the sums of the lanes whose numbers differ in these bits.
  __device__ void add_lanes(int bits) {
    raise(tvmtune::shuffle_xor(top, bits));
    total += tvmtune::shuffle_xor(total, bits);
#pragma unroll
    for (int n = 0; n < N; ++n) sum[n] += tvmtune::shuffle_xor(sum[n], bits);
  }

  // Stores the weighted values, some at once: `to` is a multiple of 16 bytes, or of N elements.
  __device__ void store(float* to) {
    constexpr int PART = N < 4 ? N : 4;
    tvmtune::Vec<float, PART> part;
#pragma unroll
    for (int n = 0; n < N; n += PART) {
      for (int i = 0; i < PART; ++i) part[i] = sum[n + i];
      tvmtune::store(to + n, part);
    }
  }
};
