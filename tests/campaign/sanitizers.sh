#!/usr/bin/env bash
# Runs what has unsafe code under AddressSanitizer, ThreadSanitizer and Miri, and says which of them are
# absent. Machine code of kernels is not instrumented: what it does is the business of the workers'
# guard pages and of the interpreters. What is instrumented is all that surrounds it.
#
# Usage: tests/campaign/sanitizers.sh [address] [thread] [miri]; all of them without arguments.
set -uo pipefail
cd "$(dirname "$0")/../.."

target=$(rustc -vV | sed -n 's/^host: //p')
library=$(rustc --print target-libdir)
failed=0
summary=()

# The runtimes and the flags are of the compiler that is here; the flags ask for this variable.
export RUSTC_BOOTSTRAP=1
# Folders of their own, so that nothing that is instrumented meets what is not.
folder=${CARGO_TARGET_DIR:-target}/sanitizers

# run NAME COMMAND..: runs a command, and notes what came of it.
run() {
    local name=$1
    shift
    echo "== $name: $*"
    if "$@"; then
        summary+=("$name: passed")
    else
        summary+=("$name: FAILED")
        failed=1
    fi
}

# has_runtime NAME: tells if the toolchain brings the runtime of a sanitizer.
has_runtime() {
    compgen -G "$library/librustc*_rt.$1.*" > /dev/null
}

address() {
    if ! has_runtime asan; then
        summary+=("AddressSanitizer: absent, this toolchain has no runtime of it")
        return
    fi
    # Workers and threads of the pool live as long as the process: what they hold is no leak. The
    # explicit target keeps build scripts and macros as they are.
    export ASAN_OPTIONS=detect_leaks=0
    RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$folder/address \
        run "AddressSanitizer, runtime" \
        cargo test --target "$target" -p tvmtune-runtime --no-default-features --features jit --lib
    RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=$folder/address \
        run "AddressSanitizer, launches" \
        cargo run --target "$target" -p tvmtune-campaign -- launches --cases "${CASES:-60}"
}

thread() {
    if ! has_runtime tsan; then
        summary+=("ThreadSanitizer: absent, this toolchain has no runtime of it")
        return
    fi
    # The standard library is not instrumented unless its sources are here: then its locks, channels
    # and reference counts would look like races.
    local std=()
    if [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
        std=(-Zbuild-std)
    else
        summary+=("ThreadSanitizer: the sources of the standard library are absent (rustup component add
    rust-src): its fences and locks are known by their system calls and atomics only")
    fi
    export TSAN_OPTIONS="suppressions=$PWD/tests/campaign/thread.supp"
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        CARGO_TARGET_DIR=$folder/thread \
        run "ThreadSanitizer, runtime" \
        cargo test "${std[@]}" --target "$target" -p tvmtune-runtime --no-default-features --features jit --lib
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
        CARGO_TARGET_DIR=$folder/thread \
        run "ThreadSanitizer, launches" \
        cargo run "${std[@]}" --target "$target" -p tvmtune-campaign -- launches --cases "${CASES:-60}"
}

miri() {
    if ! cargo miri --version > /dev/null 2>&1; then
        summary+=("Miri: absent (rustup component add miri)")
        return
    fi
    # Machine code cannot run in it: tests leave that out. The isolation would hide the clock.
    MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-permissive-provenance" CARGO_TARGET_DIR=$folder/miri \
        run "Miri, runtime" cargo miri test -p tvmtune-runtime --no-default-features --features jit --lib -- cpu:: raw:: weight::
}

[ $# -gt 0 ] || set -- address thread miri
for it in "$@"; do
    case $it in
        address | thread | miri) "$it" ;;
        *) echo "no sanitizer \`$it\`: address, thread or miri" >&2 && exit 2 ;;
    esac
done
printf '%s\n' "${summary[@]}"
exit $failed
