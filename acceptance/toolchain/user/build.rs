//! The build script: what all who use tvmtune have.

fn main() {
    tvmtune_build::run();
}
