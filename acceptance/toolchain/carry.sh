#!/usr/bin/env bash
# Makes a folder with which `cargo build` tunes on a machine with a GPU that has no Rust: the
# toolchain of this machine, the crates of tvmtune, what they depend on, and a user's crate.
#
#   acceptance/toolchain/carry.sh FOLDER     here
#   FOLDER/build.sh                          there: a driver, NVRTC and `cc`, which links, are enough
set -euo pipefail
if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$here/../.."

host=$(rustc -vV | sed -n 's/^host: //p')
sysroot=$(rustc --print sysroot)
libraries=$out/rust/lib/rustlib/$host
mkdir -p "$out"/{rust/bin,tvmtune} "$libraries"
cp "$sysroot/bin/"{cargo,rustc} "$out/rust/bin"
cp -a "$sysroot/lib/"*.so* "$out/rust/lib"
cp -a "$sysroot/lib/rustlib/$host/"{lib,bin} "$libraries"
# Runtimes of sanitizers, which only instrumented builds link.
rm -f "$libraries/lib/librustc-"*_rt.*

crates="compiler tuner tvmtune-macros tvmtune-runtime tvmtune-build kernels/device"
# Tracked files only; the manifest at the root is what the crates inherit from.
git ls-files -z Cargo.toml README.md LICENSE-APACHE LICENSE-MIT $crates |
    tar -c --null --files-from - | tar -x -C "$out/tvmtune"
cp -r "$here/user" "$here/build.sh" "$out"
mkdir -p "$out/user/.cargo"
cd "$out/user"
cargo vendor --quiet "$out/vendor"
cat > .cargo/config.toml << 'END'
[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "../vendor"
END
du -sh "$out"
