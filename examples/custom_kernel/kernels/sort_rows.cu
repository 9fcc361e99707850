// Sorts rows by a bitonic network (Batcher, 1968), in shared memory. A row is sorted by LANES threads, each
// of which compares PAIRS pairs between two barriers.
//
// Knobs: ROWS of a block, PAIRS of a thread.

#define LANES (N / 2 / PAIRS)

// Floats as integers in the same order, that of Rust's `total_cmp`: negative ones are stored in reverse. Its
// own inverse.
static __device__ int ordered(int bits) { return bits ^ (bits >> 31 & 0x7fffffff); }

// Waits for all threads of a row, which are a part of a warp or several warps.
static __device__ void wait() {
  if (LANES <= 32) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

extern "C" __global__ void sort(const float* __restrict__ x, float* sorted, int M) {
  __shared__ int rows[ROWS][N];
  const int lane = threadIdx.x % LANES;
  int* mine = rows[threadIdx.x / LANES];
  const int row = blockIdx.x * ROWS + threadIdx.x / LANES;
  // Threads of rows beyond the last one take part in barriers.
  for (int n = lane; n < N; n += LANES) {
    mine[n] = row < M ? ordered(__float_as_int(x[row * N + n])) : 0;
  }
  for (int length = 2; length <= N; length *= 2) {
    for (int distance = length / 2; distance > 0; distance /= 2) {
      wait();
#pragma unroll
      for (int pair = lane; pair < N / 2; pair += LANES) {
        const int low = pair / distance * (2 * distance) + pair % distance;
        const int a = mine[low], b = mine[low + distance];
        const bool is_ascending = (low & length) == 0;
        mine[low] = (a < b) == is_ascending ? a : b;
        mine[low + distance] = (a < b) == is_ascending ? b : a;
      }
    }
  }
  wait();
  for (int n = lane; n < N && row < M; n += LANES) {
    sorted[row * N + n] = __int_as_float(ordered(mine[n]));
  }
}
