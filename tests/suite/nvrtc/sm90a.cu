// Every device function of sm_90a: matrix instructions of warpgroups, in all their shapes.
#include "tvmtune/barrier.cuh"
#include "tvmtune/wgmma.cuh"
using namespace tvmtune;

extern "C" __global__ void __launch_bounds__(384, 1) registers(f32* a) {
  if (threadIdx.x < 128) registers_shrink<40>();
  else registers_grow<232>();
  a[threadIdx.x] = 1;
}

template <class T, int N, class Step> TVMTUNE_FN void group(T* to, Step step) {
  extern __shared__ __align__(1024) u8 shared[];
  T d[N / 2];
  const u64 tile = wgmma_operand(shared_address(shared), 16, 1024, SWIZZLE_128);
  wgmma_hold(d);
  wgmma_fence();
  step(d, tile);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_hold(d);
  for (int n = 0; n < N / 2; n++) to[n * 128 + threadIdx.x] = d[n];
}

// SHAPE(element, accumulator, N, template arguments with tiles, with registers)
#define SHAPE(type, T, N, tiles, registers)                                                      \
  TVMTUNE_WGMMA(type, N)                                                                         \
  extern "C" __global__ void __launch_bounds__(128) wgmma_##type##_##N(T* to, u32 x) {           \
    group<T, N>(to, [&](T (&d)[N / 2], u64 tile) {                                               \
      const u32 rows[4] = {x, x + 1, x + 2, x + 3};                                              \
      wgmma_##type tiles(d, tile, tile, false);                                                  \
      wgmma_##type registers(d, rows, tile, true);                                               \
      const auto place = [&](int n) -> T& { return d[N / 2 - 1 - n]; };                          \
      wgmma_##type tiles(accumulators<N / 2>(place), tile, tile, true);                          \
    });                                                                                          \
  }
#define ONE_ZERO <1, 0>
#define NEITHER <0, 0>
#define ZERO_ONE <0, 1>
SHAPE(bf16, f32, 8, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 16, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 24, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 32, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 40, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 48, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 56, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 64, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 72, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 80, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 88, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 96, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 104, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 112, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 120, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 128, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 136, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 144, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 152, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 160, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 168, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 176, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 184, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 192, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 200, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 208, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 216, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 224, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 232, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 240, ONE_ZERO, ZERO_ONE)
SHAPE(bf16, f32, 248, ONE_ZERO, ZERO_ONE) SHAPE(bf16, f32, 256, ONE_ZERO, ZERO_ONE)
SHAPE(f16, f32, 8, NEITHER, NEITHER) SHAPE(f16, f32, 64, NEITHER, NEITHER)
SHAPE(f16, f32, 256, NEITHER, NEITHER) SHAPE(tf32, f32, 8,,) SHAPE(tf32, f32, 128,,)
SHAPE(tf32, f32, 256,,) SHAPE(i8, i32, 8,,) SHAPE(i8, i32, 16,,) SHAPE(i8, i32, 24,,)
SHAPE(i8, i32, 32,,) SHAPE(i8, i32, 48,,) SHAPE(i8, i32, 208,,) SHAPE(i8, i32, 256,,)
SHAPE(u8, i32, 8,,) SHAPE(u8, i32, 96,,)
