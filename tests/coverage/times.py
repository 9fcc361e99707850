"""Times the operators of src/ by their default schedules beside PyTorch, eager, in alternation, and writes
a table.

    python tests/coverage/times.py path/to/cargo-tvmtune [--rounds 3] [--threads 2] > table.md
"""

import argparse
import math
import re
import statistics
import subprocess
import sys
import time

import torch

from operators import OPERATORS
from signatures import HERE, operators

UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}


def ours(command, family):
    """The median latency of each operator of a family, in us."""
    run = [command, "tvmtune", "bench", "--default", "--manifest-path", str(HERE / "Cargo.toml")]
    run += ["--kernel", f"{family}::"]
    text = subprocess.run(run, capture_output=True, text=True).stdout
    found = {}
    for line in text.splitlines():
        named = re.match(r"\s*(?:\w+::)*(\w+)\s", line)
        latency = re.search(r"([\d.,]+) (ns|us|ms|s)\b", line)
        if named and latency:
            found[named[1]] = float(latency[1].replace(",", "")) * UNITS[latency[2]]
    return found


def theirs(operator):
    """The median latency of an operator in PyTorch, in us."""
    function, inputs = OPERATORS[operator.name], operator.inputs(operator.dims, doubles=False)
    with torch.inference_mode():
        for _ in range(3):
            start = time.perf_counter()
            function(*inputs)
            once = time.perf_counter() - start
        times = []
        for _ in range(max(5, min(200, int(0.1 / max(once, 1e-6))))):
            start = time.perf_counter()
            function(*inputs)
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ratios, rows = [], []
    families = {}
    for it in operators():
        families.setdefault(it.family, []).append(it)
    for family, members in families.items():
        rounds = []
        for _ in range(options.rounds):
            mine = ours(options.command, family)
            rounds.append({it.name: (mine.get(it.name), theirs(it)) for it in members})
        for it in members:
            found = [of[it.name] for of in rounds if of[it.name][0]]
            if not found:
                print(f"{family}::{it.name}: no latency", file=sys.stderr)
                continue
            ratio = statistics.median(b / a for a, b in found)
            ratios.append(ratio)
            a = statistics.median(it[0] for it in found)
            b = statistics.median(it[1] for it in found)
            rows.append((ratio, f"| {family} | {it.name} | {a:.0f} | {b:.0f} | {ratio:.2f} |"))
    mean = math.exp(statistics.mean(math.log(it) for it in ratios))
    below = sum(it < 0.9 for it in ratios)
    print(f"PyTorch {torch.__version__} eager, {options.threads} threads, {options.rounds} rounds.")
    print(f"{len(ratios)} operators: geometric mean {mean:.2f}, median {statistics.median(ratios):.2f},")
    print(f"{below} below 0.9.\n")
    print("| family | operator | us | PyTorch, us | ratio |\n|---|---|---|---|---|")
    print("\n".join(row for _, row in sorted(rows)))


main()
