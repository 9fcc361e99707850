//! Tunes the kernels of this crate, or finds their records.

fn main() {
    tvmtune_build::run();
}
