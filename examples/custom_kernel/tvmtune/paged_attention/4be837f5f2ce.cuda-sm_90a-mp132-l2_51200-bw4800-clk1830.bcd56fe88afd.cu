#include "tvmtune/kernel.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"
#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"
using Index = int;
#define HEADS 8
#define HEAD_DIM 64
#define PAGE 16
#define KV_HEADS 2
#define THREADS 128
#define QUERIES 4
#define VECTOR 8
#define KEYS 2
#define STEP 16
#line 1 "kernels/paged_attention.cu"
// Attention of one query for each sequence and head to keys and values in pages of a cache (decode, as in
// vLLM: Kwon et al., 2023). A block has a sequence and some heads that share their keys, so that it loads
// each key once for all of them. LANES lanes load a key, and as many keys as fit are loaded by a warp.
//
// Knobs: THREADS of a block, QUERIES of a block, VECTOR elements of a load, KEYS that a lane loads before it
// uses them, STEP pages between two barriers.

#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"
#ifndef TVMTUNE_ONCE_kernels_2f_online_5f_softmax_2e_cuh
#define TVMTUNE_ONCE_kernels_2f_online_5f_softmax_2e_cuh
#line 1 "kernels/online_softmax.cuh"
// Softmax of scores that come one after the other, weighting rows of values (online softmax: Milakov and
// Gimelshein, 2018). Scores are in units of ln 2.


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
#endif
#line 11 "kernels/paged_attention.cu"
#ifndef TVMTUNE_ONCE_kernels_2f_paged_5f_attention_2e_h
#define TVMTUNE_ONCE_kernels_2f_paged_5f_attention_2e_h
#line 1 "kernels/paged_attention.h"
// The parameters of the kernel of paged_attention.cu. The compiler of the device reads this header, and
// libclang does for the bindings in Rust.


// The shared memory that a block may have on any device without being asked.
#define PAGED_ATTENTION_SHARED_BYTES (48 * 1024)

struct paged_attention_params {
  unsigned int pages;  // of the cache
  unsigned int slots;  // of the table, for a sequence
  float scale;         // of scores: mostly one by the square root of HEAD_DIM
};
#endif
#line 12 "kernels/paged_attention.cu"

#define LANES (HEAD_DIM / VECTOR)
#define AT_ONCE (THREADS / LANES)
#define WARPS (THREADS / 32)

typedef tvmtune::Vec<tvmtune::f16, VECTOR> Elements;
typedef OnlineSoftmax<VECTOR> Softmax;

static __device__ void load(float (&to)[VECTOR], const tvmtune::f16* from, bool is_there) {
  Elements elements = {};
  if (is_there) elements = tvmtune::load_constant<Elements>(from);
#pragma unroll
  for (int n = 0; n < VECTOR; ++n) to[n] = tvmtune::to_f32(elements[n]);
}

// Adds KEYS tokens that are AT_ONCE apart. A page that the cache does not have is one of zeros.
static __device__ void attend(Softmax (&softmax)[QUERIES], const float (&query)[QUERIES][VECTOR],
                              const tvmtune::f16* k, const tvmtune::f16* v, const int* table,
                              unsigned int token, unsigned int n_tokens, unsigned int n_pages) {
  float keys[KEYS][VECTOR], values[KEYS][VECTOR];
#pragma unroll
  for (int key = 0; key < KEYS; ++key) {
    const unsigned int at = token + key * AT_ONCE;
    const unsigned int page = at < n_tokens ? table[at / PAGE] : n_pages;
    const long long row = ((long long)page * PAGE + at % PAGE) * (KV_HEADS * HEAD_DIM);
    load(keys[key], k + row, page < n_pages);
    load(values[key], v + row, page < n_pages);
  }
#pragma unroll
  for (int q = 0; q < QUERIES; ++q) {
    float scores[KEYS], top = MASKED_SCORE;
#pragma unroll
    for (int key = 0; key < KEYS; ++key) {
      float score = 0.0f;
#pragma unroll
      for (int n = 0; n < VECTOR; ++n) score += query[q][n] * keys[key][n];
      scores[key] = tvmtune::warp_reduce<tvmtune::Sum, LANES>(score);
      if (token + key * AT_ONCE >= n_tokens) scores[key] = MASKED_SCORE;
      top = fmaxf(top, scores[key]);
    }
    softmax[q].raise(top);
#pragma unroll
    for (int key = 0; key < KEYS; ++key) {
      const bool is_there = token + key * AT_ONCE < n_tokens;
      softmax[q].add(is_there ? softmax[q].weight(scores[key]) : 0.0f, values[key]);
    }
  }
}

// Adds the sums of the warps, which lie in shared memory, and stores the results.
static __device__ void store(tvmtune::f16* y, Softmax (&softmax)[QUERIES], float* sums) {
  float* tops = sums + WARPS * QUERIES * HEAD_DIM;
  float* totals = tops + WARPS * QUERIES;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int q = 0; q < QUERIES; ++q) {
#pragma unroll
    for (int bits = LANES; bits < 32; bits *= 2) softmax[q].add_lanes(bits);
    const int row = warp * QUERIES + q;
    if (lane == 0) tops[row] = softmax[q].top;
    if (lane == 0) totals[row] = softmax[q].total;
    if (lane < LANES) softmax[q].store(sums + row * HEAD_DIM + lane * VECTOR);
  }
  __syncthreads();
  for (int n = threadIdx.x; n < QUERIES * HEAD_DIM; n += THREADS) {
    const int q = n / HEAD_DIM;
    float top = MASKED_SCORE, total = 0.0f, sum = 0.0f;
    for (int row = q; row < WARPS * QUERIES; row += QUERIES) top = fmaxf(top, tops[row]);
    for (int row = q; row < WARPS * QUERIES; row += QUERIES) {
      const float factor = exp2f(tops[row] - top);
      total += factor * totals[row];
      sum += factor * sums[row * HEAD_DIM + n % HEAD_DIM];
    }
    y[n] = tvmtune::to_f16(total > 0.0f ? sum / total : 0.0f);
  }
}

extern "C" __global__ void attention(const tvmtune::f16* __restrict__ q, const tvmtune::f16* __restrict__ k,
                                     const tvmtune::f16* __restrict__ v, const int* __restrict__ table,
                                     const unsigned int* __restrict__ lengths, tvmtune::f16* y,
                                     paged_attention_params params) {
  extern __shared__ float shared[];
  int* pages = (int*)(shared + WARPS * QUERIES * (HEAD_DIM + 2));
  const unsigned int sequence = blockIdx.y;
  const int head = blockIdx.x * QUERIES;
  const int column = threadIdx.x % LANES * VECTOR;
  const long long first = ((long long)sequence * HEADS + head) * HEAD_DIM;
  const int of_head = head / (HEADS / KV_HEADS) * HEAD_DIM + column;
  table += (long long)sequence * params.slots;

  float query[QUERIES][VECTOR];
#pragma unroll
  for (int n = 0; n < QUERIES; ++n) {
    load(query[n], q + first + n * HEAD_DIM + column, true);
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) query[n][i] *= params.scale * 1.4426950408889634f;
  }
  Softmax softmax[QUERIES];
  // What a table has no room for is not there.
  const unsigned int room = params.slots * PAGE;
  const unsigned int n_tokens = lengths[sequence] < room ? lengths[sequence] : room;
  for (unsigned int start = 0; start < n_tokens; start += STEP * PAGE) {
    const unsigned int slot = start / PAGE;
    __syncthreads();
    for (unsigned int n = threadIdx.x; n < STEP && slot + n < params.slots; n += THREADS) {
      pages[n] = table[slot + n];
    }
    __syncthreads();
    const unsigned int rest = n_tokens - start < STEP * PAGE ? n_tokens - start : STEP * PAGE;
    // All lanes of a warp take part, also where a token is beyond the end.
    for (unsigned int token = 0; token < rest; token += AT_ONCE * KEYS) {
      attend(softmax, query, k + of_head, v + of_head, pages, token + threadIdx.x / LANES, rest,
             params.pages);
    }
  }
  store(y + first, softmax, shared);
}
#undef HEADS
#undef HEAD_DIM
#undef PAGE
#undef KV_HEADS
#undef THREADS
#undef QUERIES
#undef VECTOR
#undef KEYS
#undef STEP
#line 1 "the layout of paged_attention_params"
static_assert(sizeof(paged_attention_params) == 12, "the bindings of paged_attention_params are of another struct");
static_assert(__INTADDR__(&(((paged_attention_params*)0)->pages)) == 0, "the bindings of paged_attention_params are of another struct");
static_assert(sizeof(((paged_attention_params*)0)->pages) == 4, "the bindings of paged_attention_params are of another struct");
static_assert(__INTADDR__(&(((paged_attention_params*)0)->slots)) == 4, "the bindings of paged_attention_params are of another struct");
static_assert(sizeof(((paged_attention_params*)0)->slots) == 4, "the bindings of paged_attention_params are of another struct");
static_assert(__INTADDR__(&(((paged_attention_params*)0)->scale)) == 8, "the bindings of paged_attention_params are of another struct");
static_assert(sizeof(((paged_attention_params*)0)->scale) == 4, "the bindings of paged_attention_params are of another struct");
#line 1 "the parameters of attention"
static_assert(tvmtune::Takes<decltype(&attention), const tvmtune::f16*, const tvmtune::f16*, const tvmtune::f16*, const tvmtune::i32*, const tvmtune::u32*, tvmtune::f16*, paged_attention_params>::value, "expected extern \"C\" __global__ void attention(const f16*, const f16*, const f16*, const i32*, const u32*, f16*, paged_attention_params)");
