#!/usr/bin/env bash
# Prints how much of each crate the campaign reaches, by lines, and the files that it reaches least.
#
#     tests/campaign/coverage.sh [arguments of the campaign]
#
# It needs `llvm-profdata` and `llvm-cov` of LLVM 19 or later: from rustup's component `llvm-tools`,
# or from Debian's package `llvm-19`.
set -euo pipefail
cd "$(dirname "$0")/../.."

tool() {
    local found sysroot
    sysroot=$(rustc --print sysroot)
    for found in "$sysroot/lib/rustlib/"*/bin/"$1" /usr/lib/llvm-{23,22,21,20,19}/bin/"$1"; do
        if [ -x "$found" ]; then
            echo "$found"
            return
        fi
    done
    echo "cannot find $1: rustup component add llvm-tools, or apt-get install llvm-19" >&2
    exit 1
}
profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)

target=target/coverage
rm -rf "$target/raw" "$target/findings"
mkdir -p "$target/raw"
# Only members of the workspace are instrumented: all else is shared with other builds.
export RUSTC_WORKSPACE_WRAPPER="$PWD/tests/campaign/instrument.sh"
# Macros are members, too, and run while others compile.
LLVM_PROFILE_FILE=/dev/null cargo build -p tvmtune-campaign --bin campaign
binary=$target/campaign
cp target/debug/campaign "$binary"
LLVM_PROFILE_FILE="$PWD/$target/raw/%4m.profraw" "$binary" --out "$target/findings" "$@" || echo "(with findings)"

"$profdata" merge -sparse "$target/raw/"*.profraw -o "$target/campaign.profdata"
"$cov" export --format=lcov --instr-profile="$target/campaign.profdata" "$binary" > "$target/campaign.lcov"

# Lines of a file between its name and the end of its section: `LF` has them all, `LH` those reached.
awk -F: -v root="$PWD/" '
    /^SF:/ { file = $2; sub(root, "", file) }
    /^LF:/ { all = $2 }
    /^LH:/ { hit = $2 }
    /^end_of_record/ && file ~ /\/src\// && file !~ /^(\/|tests\/)/ {
        crate = file; sub(/\/src\/.*/, "", crate)
        lines[crate] += all; reached[crate] += hit
        print file, hit, all > "'"$target"'/files.txt"
    }
    END {
        print "| crate | lines | reached |"
        print "|---|---|---|"
        for (crate in lines)
            printf "| `%s` | %d | %.1f %% |\n", crate, lines[crate], 100 * reached[crate] / lines[crate] | "sort"
    }
' "$target/campaign.lcov"
echo
echo "Files of which the campaign reaches nothing:"
awk '$2 == 0 { print "  " $1 " (" $3 " lines)" }' "$target/files.txt" | sort
echo "Files of which it reaches less than half:"
awk '$2 > 0 && $2 * 2 < $3 { printf "  %s (%d of %d)\n", $1, $2, $3 }' "$target/files.txt" | sort
