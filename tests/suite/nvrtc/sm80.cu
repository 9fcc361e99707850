// Every device function that came with sm_80.
#include "tvmtune/copy.cuh"
#include "tvmtune/mma.cuh"
using namespace tvmtune;

extern "C" __global__ void copies(f32* a, const f32* b) {
  __shared__ __align__(16) f32 tile[256];
  copy_async<16>(tile, b);
  copy_async<8>(tile + permuted<128, 4>(4), b, threadIdx.x < 3);
  copy_async<4>(tile + 8, b);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  a[threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void products(f32* a, const u32* b) {
  f32 d[4] = {};
  i32 e[4] = {};
  u32 x[4] = {b[0], b[1], b[2], to_tf32(a[0])}, y[2] = {b[3], b[4]};
  mma_m16n8k16_f16(d, x, y);
  mma_m16n8k16_bf16(d, x, y);
  round_to_tf32(y);
  mma_m16n8k8_tf32(d, x, y);
  mma_m16n8k32_i8_i8(e, x, y);
  mma_m16n8k32_i8_u8(e, x, y);
  mma_m16n8k32_u8_i8(e, x, y);
  mma_m16n8k32_u8_u8(e, x, y);
  a[threadIdx.x] = d[0] + d[1] + d[2] + d[3] + f32(e[0] + e[1] + e[2] + e[3]);
}
