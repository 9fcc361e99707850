// b = a^T in tiles of 32 x 32 through padded shared memory. NO_PADDING: the same with bank conflicts.
#ifdef NO_PADDING
enum : int { PITCH = 32 };
#else
enum : int { PITCH = 33 };
#endif
extern "C" __global__ void __launch_bounds__(256) transpose(const float* a, float* b, int rows, int cols) {
  __shared__ float tile[32][PITCH];
  const int x = threadIdx.x, y = threadIdx.y;
  for (int i = y; i < 32; i += 8) {
    const int row = blockIdx.y * 32 + i, col = blockIdx.x * 32 + x;
    if (row < rows && col < cols) tile[i][x] = a[row * cols + col];
  }
  __syncthreads();
  for (int i = y; i < 32; i += 8) {
    const int row = blockIdx.x * 32 + i, col = blockIdx.y * 32 + x;
    if (row < cols && col < rows) b[row * rows + col] = tile[x][i];
  }
}
