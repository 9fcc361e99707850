//! A build script, as every crate that uses tvmtune has one; tests run it without cargo.

fn main() {
    tvmtune_build::run();
}
