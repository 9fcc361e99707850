// C[M, N] = A[M, K] * B[N, K]^T, bf16, sums in f32: cp.async into a ring, ldmatrix, mma.sync. K % 8 == 0, N % 2 == 0.
enum : int { BM = 32, BN = 32, BK = 32, STAGES = 3, THREADS = 64, CHUNKS = BK / 8, STAGE = (BM + BN) * BK };

__device__ unsigned shared(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
// 16-byte pieces of a row, permuted so that columns are read without conflicts.
__device__ int piece(int row, int chunk) { return row * CHUNKS + (chunk ^ (row / 2 & 3)); }

extern "C" __global__ void __launch_bounds__(THREADS) gemm_mma(
    const unsigned short* a, const unsigned short* b, unsigned* c, int m, int n, int k) {
  __shared__ __align__(128) unsigned short ring[STAGES * STAGE];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, steps = (k + BK - 1) / BK;
  auto copy = [&](int step) {
    if (step < steps) {
      unsigned short* stage = ring + step % STAGES * STAGE;
#pragma unroll
      for (int i = 0; i < (BM + BN) * CHUNKS / THREADS; i++) {
        const int e = t + i * THREADS, row = e / CHUNKS, chunk = e % CHUNKS, col = step * BK + chunk * 8;
        const bool left = row < BM;
        const int from = left ? m0 + row : n0 + row - BM;
        const bool in = col < k && from < (left ? m : n);
        const unsigned short* source = (left ? a : b) + (in ? (long long)from * k + col : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared(stage + piece(row, chunk) * 8)), "l"(source), "r"(in ? 16 : 0));
      }
    }
    asm volatile("cp.async.commit_group;");
  };
  float acc[2][2][4] = {};
  for (int s = 0; s < STAGES - 1; s++) copy(s);
  for (int s = 0; s < steps; s++) {
#ifdef BUG_WAIT_COUNT
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1));
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
#endif
#ifndef BUG_MISSING_BARRIER
    __syncthreads();
#endif
    copy(s + STAGES - 1);
    const unsigned short* stage = ring + s % STAGES * STAGE;
#pragma unroll
    for (int kk = 0; kk < BK / 16; kk++) {
      unsigned fa[2][4], fb[4];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const unsigned from = shared(stage + piece(i * 16 + lane % 16, kk * 2 + lane / 16) * 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(from)); /* rows of a */
      }
      const unsigned from = shared(stage + piece(BM + warp * 16 + lane / 16 * 8 + lane % 8, kk * 2 + lane / 8 % 2) * 8);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3]) : "r"(from));
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 2; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                       : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[2 * j]), "r"(fb[2 * j + 1]));
    }
  }
  asm volatile("cp.async.wait_all;");
#pragma unroll
  for (int i = 0; i < 2; i++)
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int row = m0 + i * 16 + h * 8 + lane / 4, col = n0 + warp * 16 + j * 8 + lane % 4 * 2;
        unsigned pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(acc[i][j][h * 2 + 1]), "f"(acc[i][j][h * 2]));
        if (row < m && col < n) c[(row * n + col) / 2] = pair;
      }
}
