#!/usr/bin/env bash
# Builds a user's crate with the toolchain beside it, without a network: its build script tunes the
# kernel for the GPU of this machine. Then runs it, and builds once more, which measures nothing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export PATH=$here/rust/bin:$PATH CARGO_HOME=$here/cargo-home CARGO_NET_OFFLINE=true
export TVMTUNE=${TVMTUNE:-tune} TVMTUNE_CACHE=$here/cache
cd "$here/user"
time cargo run --release
echo
echo "Once more, with another program and the same kernel, from what was measured:"
touch src/main.rs
time TVMTUNE=use cargo run --release
find "$TVMTUNE_CACHE" -name '*.toml'
