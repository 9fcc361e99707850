//! Hand-written kernels whose grids and blocks have several dimensions, on the emulator.

use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tests::sandbox::{Said, Sandbox, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

const SOURCE: &str = r#"
use tvmtune_runtime::autotune;

#[autotune(
    dims(B = 1..=5, M = 1..=70, N = 1..=70),
    template = "kernels/transpose.cu",
    knobs(TILE in [32, 16], ROWS in [4, 1, 8]),
    kernels(transpose(
        grid = ((N + TILE - 1) / TILE, (M + TILE - 1) / TILE, B),
        block = (TILE, ROWS)
    ))
)]
pub fn transpose(x: Tensor<f32, B, M, N>) -> Tensor<f32, B, N, M> {
    compute(|b, n, m| x[[b, m, n]])
}
"#;

const KERNEL: &str = r#"
extern "C" __global__ void transpose(const float* x, float* y, int B, int M, int N) {
  __shared__ float tile[TILE][TILE + 1];
  const int m = blockIdx.y * TILE, n = blockIdx.x * TILE, column = threadIdx.x;
  x += blockIdx.z * M * N;
  y += blockIdx.z * M * N;
  for (int row = threadIdx.y; row < TILE; row += ROWS) {
    if (m + row < M && n + column < N) tile[row][column] = x[(m + row) * N + n + column];
  }
  __syncthreads();
  for (int row = threadIdx.y; row < TILE; row += ROWS) {
    if (n + row < N && m + column < M) y[(n + row) * M + m + column] = tile[column][row];
  }
}
"#;

/// Runs `cargo tvmtune emulate` with each setting of a kernel.
fn emulate(kernel: &str, extents: &str) -> Option<Said> {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("kernels/transpose.cu", kernel);
    let mut command = sandbox.command(TVMTUNE);
    command.env("TVMTUNE_NVRTC", nvrtc()?.path()).args(["emulate", "--all", "--at", extents]);
    Some(said(&mut command))
}

#[test]
fn blocks_and_threads_are_where_a_launch_puts_them() {
    for extents in ["B=1,M=1,N=1", "B=2,M=31,N=33", "B=3,M=64,N=17", "B=5,M=70,N=69"] {
        let Some(said) = emulate(KERNEL, extents) else { return };
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(said.out.matches(" right ").count(), 6, "{said:?}");
    }
}

#[test]
fn a_kernel_that_takes_one_direction_for_another_is_found() {
    let swapped =
        KERNEL.replace("blockIdx.y * TILE, n = blockIdx.x", "blockIdx.x * TILE, n = blockIdx.y");
    let alone = KERNEL.replace("blockIdx.z", "0");
    for kernel in [swapped, alone] {
        assert_ne!(kernel, KERNEL);
        let Some(said) = emulate(&kernel, "B=2,M=31,N=65") else { return };
        assert_eq!(said.code, Some(1), "{said:?}");
        let is_found = ["`transpose`: ", "of result 0 is "].iter().any(|it| said.err.contains(it));
        assert!(is_found, "{said:?}");
    }
}
