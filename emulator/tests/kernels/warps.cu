// What threads of one warp can get wrong. BUG_NO_SYNCWARP: they rely on running in step.
// BUG_DIVERGENT_SHUFFLE: half of them never come.
extern "C" __global__ void warps(const int* x, int* y) {
  __shared__ int s[32];
  const int t = threadIdx.x;
  s[t] = x[t];
#ifndef BUG_NO_SYNCWARP
  __syncwarp();
#endif
  int v = s[31 - t];
#ifdef BUG_DIVERGENT_SHUFFLE
  if (t < 16) v += __shfl_xor_sync(~0u, v, 1);
#else
  v += __shfl_xor_sync(~0u, v, 1);
#endif
  // Each half on its own.
  const unsigned half = t < 16 ? 0xffffu : 0xffff0000u;
  if (t < 16) v += __reduce_add_sync(half, v); else v -= __reduce_max_sync(half, v);
  v += __popc(__ballot_sync(~0u, v & 1)) + __any_sync(~0u, v > 1000) + __all_sync(~0u, t < 32);
  v += __match_any_sync(~0u, v & 3) & 7;
  y[t] = v;
}
