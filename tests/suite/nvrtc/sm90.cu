// Every device function that came with sm_90.
#include "tvmtune/barrier.cuh"
#include "tvmtune/mma.cuh"
#include "tvmtune/tma.cuh"
using namespace tvmtune;

extern "C" __global__ void __cluster_dims__(2, 1, 1) boxes(TVMTUNE_TENSOR_MAP map, f32* a) {
  extern __shared__ __align__(1024) u8 shared[];
  u64* arrived = reinterpret_cast<u64*>(shared + 4096);
  if (threadIdx.x == 0) {
    mbarrier_init(arrived, 1);
    mbarrier_fence_init();
  }
  cluster_sync();
  if (threadIdx.x < 32 && elect_one()) {
    tensor_prefetch_map(map);
    mbarrier_expect(arrived, 4096);
    tensor_load(shared, map, arrived, 0);
    tensor_load(shared, map, arrived, 0, 1);
    tensor_load(shared, map, arrived, 0, 1, 2);
    tensor_load(shared, map, arrived, 0, 1, 2, 3);
    tensor_load(shared, map, arrived, 0, 1, 2, 3, 4);
    tensor_multicast(shared, map, arrived, 3, 0);
    tensor_multicast(shared, map, arrived, 3, 0, 1);
    tensor_multicast(shared, map, arrived, 3, 0, 1, 2);
    tensor_multicast(shared, map, arrived, 3, 0, 1, 2, 3);
    tensor_multicast(shared, map, arrived, 3, 0, 1, 2, 3, 4);
    bulk_load(shared, a, 64, arrived);
    mbarrier_arrive(arrived);
    mbarrier_arrive_at(arrived, 1);
  }
  mbarrier_wait(arrived, 0);
  mbarrier_wait(arrived, 1);
  const u32 four[4] = {1, 2, 3, 4}, two[2] = {1, 2}, one[1] = {1};
  store_matrices<4>(shared, four);
  store_matrices<2>(shared, two);
  store_matrices<1, true>(shared, one);
  fence_async();
  if (threadIdx.x == 0) {
    tensor_store(map, shared, 0);
    tensor_store(map, shared, 0, 1);
    tensor_store(map, shared, 0, 1, 2);
    tensor_store(map, shared, 0, 1, 2, 3);
    tensor_store(map, shared, 0, 1, 2, 3, 4);
    bulk_store(a, shared, 64);
    tensor_commit();
    tensor_wait_read<1>();
    tensor_wait<0>();
  }
  a[threadIdx.x] = *cluster_map(reinterpret_cast<f32*>(shared), cluster_rank() ^ 1);
  cluster_arrive();
  cluster_wait();
}
