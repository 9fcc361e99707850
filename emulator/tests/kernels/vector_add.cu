// c = a + b, guarded at the end. BUG_OOB: the guard lets one too many through.
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef BUG_OOB
  if (i <= n)
#else
  if (i < n)
#endif
    c[i] = a[i] + b[i];
}
