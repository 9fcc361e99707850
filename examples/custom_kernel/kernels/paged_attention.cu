// Attention of one query for each sequence and head to keys and values in pages of a cache (decode, as in
// vLLM: Kwon et al., 2023). A block has a sequence and some heads that share their keys, so that it loads
// each key once for all of them. LANES lanes load a key, and as many keys as fit are loaded by a warp.
//
// Knobs: THREADS of a block, QUERIES of a block, VECTOR elements of a load, KEYS that a lane loads before it
// uses them, STEP pages between two barriers.

#include "tvmtune/copy.cuh"
#include "tvmtune/warp.cuh"
#include "online_softmax.cuh"
#include "paged_attention.h"

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
