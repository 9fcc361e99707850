"""Measures the workloads of `kernels/` beside PyTorch, ONNX Runtime, TVM and Halide, in one run.

From nothing, with Python 3.10 or later, a C++ compiler, and an installed or built `cargo tvmtune`:

    python3 -m venv venv
    venv/bin/pip install torch numpy onnx onnxruntime halide
    venv/bin/pip install apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post1 \\
        xgboost psutil cloudpickle
    venv/bin/python docs/results/peers --threads 2 --tune-only
    venv/bin/python docs/results/peers --threads 2 --rounds 3 --json peers.json > table.md

TVM is pinned, since its modules move from release to release, and its foreign functions are, since
with those of 0.1.15 MetaSchedule crashes. The third command takes most of an hour on two cores. It is
not needed, but what it tunes is kept (`--tvm-work`), so that the last one begins at once and takes a
quarter of an hour, half of it for Halide's schedules. A peer whose library is not installed is left
out, and so is one that `--without` names.

At first all peers are made for all workloads: programs are compiled, schedules are looked for. Then
each round goes through all workloads and measures each peer, our kernel and our default schedule
one after the other, so that a slow minute of a shared machine hits all of them; before each, the
threads of the one before have come to rest. What is compared is the median over rounds of each
round's median; the spread is that of the ratio to the best peer of the round. All results are
compared with those of the first peer.

Weights are constants to ONNX Runtime and max-autotune, which may pack them ahead of time; PyTorch
eager, TVM and Halide are given them at each run. TVM and Halide search, as ours does.
"""

import argparse
import contextlib
import ctypes
import datetime
import functools
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Callable

import numpy as np
from workloads import OPERATIONS, Workload


@dataclass
class Peer:
    """Where a peer's code is, what to install for it, and how to get at what makes its runs."""

    title: str
    module: str
    packages: list
    maker: Callable

    def loaded(self, said):
        """What makes a run of a workload; nothing if a library is missing."""
        try:
            return self.maker(importlib.import_module(self.module), said)
        except ImportError as error:
            packages = " ".join(self.packages)
            print(f"{self.title} is left out ({error}): pip install {packages}", file=sys.stderr)
            return None


PEERS = {
    "eager": Peer("PyTorch", "pytorch", ["torch"], lambda it, _: it.eager),
    "max-autotune": Peer("max-autotune", "pytorch", ["torch"], lambda it, _: it.max_autotune),
    "onnxruntime": Peer(
        "ONNX Runtime", "onnx_runtime", ["onnxruntime", "onnx"], lambda it, _: it.onnx_runtime
    ),
    "tvm": Peer(
        "TVM",
        "tvm_metaschedule",
        ["apache-tvm==0.27.0.post1", "apache-tvm-ffi==0.1.14.post1", "xgboost", "psutil", "cloudpickle"],
        lambda it, said: it.MetaSchedule(said.tvm_work, said.tvm_trials),
    ),
    "halide": Peer(
        "Halide",
        "halide_adams",
        ["halide"],
        lambda it, said: it.Adams2019(said.halide_samples, said.halide_seconds),
    ),
}


def arguments():
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="peers", description=__doc__.splitlines()[0])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    known = ", ".join(PEERS)
    option = parser.add_argument
    option("--threads", type=int, default=os.cpu_count(), help="of each peer and ours")
    option("--rounds", type=int, default=3)
    option("--only", default="", metavar="TEXT", help="workloads whose name contains this")
    option("--without", action="append", default=[], metavar="PEER", help=f"leave it out: {known}")
    option("--json", type=Path, metavar="FILE", help="write all that was measured, round by round")
    option("--tune-only", action="store_true", help="tune with TVM and measure nothing else")
    option("--tvm-trials", type=int, default=64, help="for each workload; default: 64")
    option(
        "--tvm-work",
        type=Path,
        default=cache / "tvmtune-peers",
        metavar="FOLDER",
        help="where what TVM tuned is kept; default: in the user's cache",
    )
    option("--halide-samples", type=int, default=8, help="random schedules of each workload; default: 8")
    option("--halide-seconds", type=float, default=30, help="no further sample after these; default: 30")
    said = parser.parse_args()
    unknown = [it for it in said.without if it not in PEERS]
    if unknown:
        parser.error(f"no peer is called {', '.join(unknown)}; known are {known}")
    if not any(said.only in it for it in OPERATIONS):
        parser.error(f"no workload's name contains {said.only}")
    return said


def set_threads(n_threads):
    """Libraries read these when they are loaded; ours reads the last."""
    for variable in ["OMP", "OPENBLAS", "MKL", "TVM", "HL"]:
        os.environ[f"{variable}_NUM_THREADS"] = str(n_threads)
    os.environ["TVMTUNE_THREADS"] = str(n_threads)


def keep_memory():
    """Tells the C library to keep what is freed, where that is glibc.

    PyTorch takes memory for each result. Whether that goes back to the system each time, which took
    PyTorch's `softmax` from 1.2 to 3.4 ms, would depend on what else was freed before.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    set_option(-1, 1 << 30)  # M_TRIM_THRESHOLD
    set_option(-3, 1 << 25)  # M_MMAP_THRESHOLD, the greatest there is


def tune(names, peer, threads, tables):
    """Tunes with TVM and prints how far each search came; the curves go to a file beside them."""
    say = functools.partial(print, file=tables, flush=True)
    say("| workload | trials | failed | seconds | best, us |\n|---|---|---|---|---|")
    found = []
    for name in names:
        try:
            noted = peer.tuned(Workload(name), threads)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        best = "none" if noted["best_us"] is None else f"{noted['best_us']:.1f}"
        cells = [name, noted["trials"], noted["failed"], f"{noted['seconds']:.0f}", best]
        say(f"| {' | '.join(map(str, cells))} |")
        found.append(noted)
    (peer.work / "tuned.json").write_text(json.dumps(found, indent=1) + "\n")


def settle():
    """Waits until all threads here rest: some spin for a while, in case there is more to do."""
    for _ in range(30):
        before = time.process_time()
        time.sleep(0.15)
        if time.process_time() - before < 0.01:
            return
    print("some thread never rests; what follows may be slow", file=sys.stderr)


def median_us(run, seconds=0.4, samples=25):
    """The median of samples, each of as many runs as fill its share of the time."""
    run()
    start = time.perf_counter()
    run()
    once = max(time.perf_counter() - start, 1e-7)
    for _ in range(max(1, int(0.1 / once))):
        run()
    inner = max(1, int(seconds / samples / once))
    found = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(inner):
            run()
        found.append((time.perf_counter() - start) / inner * 1e6)
    return statistics.median(found)


def ours(name):
    command = ["cargo", "tvmtune", "bench", "-p", "tvmtune-kernels", "-k", name, "--json"]
    lines = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return next(line for line in lines if line["name"] == name)


def made(name, peers, threads):
    """The runs of a workload, each of them used once: some compile only then."""
    workload, runs, expected = Workload(name), {}, None
    for key, make in peers.items():
        start = time.monotonic()
        try:
            run = make(workload, threads)
            result = run()
        except Exception as error:
            print(f"{name}: {PEERS[key].title}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        expected = result.copy() if expected is None else expected
        error = np.abs(result - expected).max() / np.abs(expected).max()
        # So that nothing that is not a number passes.
        if not error < 1e-3:
            print(f"{name}: {PEERS[key].title} differs by {error:.1e}", file=sys.stderr)
            continue
        runs[key] = run
        print(f"{name}: {PEERS[key].title} made in {time.monotonic() - start:.1f} s", file=sys.stderr)
    return runs


def measure(name, runs):
    """The median of each peer, ours and our default, in us."""
    found = {}
    for key, run in runs.items():
        settle()
        found[key] = median_us(run)
    settle()
    line = ours(name)
    return {
        "peers": found,
        "ours": line["latency_us"],
        "default": line["default_us"] or line["latency_us"],
        "tier": line["tier"],
    }


def cpu():
    """The CPU by name and by what it can do, which virtual machines hide less often."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    except OSError:
        return {"name": platform.processor()}
    facts = dict((part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
    features = [it for it in facts.get("flags", "").split() if it.startswith(("fma", "avx", "amx"))]
    return {"name": facts.get("model name", "?"), "family": facts.get("cpu family"), "features": features}


def versions():
    """Of all packages that are installed, whether they took part or not."""
    found = {"python": platform.python_version()}
    for package in ["numpy", *(it for peer in PEERS.values() for it in peer.packages)]:
        package = package.split("==")[0]
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    return found


def write(said, peers, measured):
    """All that was measured so far, and what the peers that search have noted."""
    document = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu(),
        "threads": said.threads,
        "versions": versions(),
        "arguments": vars(said),
        "workloads": measured,
        "notes": {key: make.notes for key, make in peers.items() if hasattr(make, "notes")},
    }
    said.json.write_text(json.dumps(document, indent=1, default=str) + "\n")


def report(peers, measured, tables):
    """The table, then geometric means of the ratios."""
    say = functools.partial(print, file=tables)
    heads = [PEERS[it].title + ", us" for it in peers] + ["default, us", "ours, us"]
    heads += ["default ratio", "ratio", "of rounds", "tier"]
    say("| workload | " + " | ".join(heads) + " |\n|" + "---|" * (1 + len(heads)))
    ratios = {"best peer": ([], [])} | {PEERS[it].title: ([], []) for it in peers}
    for name, rounds in measured.items():
        us = {
            it: statistics.median(round["peers"][it] for round in rounds)
            for it in peers
            if it in rounds[0]["peers"]
        }
        ours_us, default_us = (statistics.median(it[what] for it in rounds) for what in ["ours", "default"])
        best = min(us.values())
        each = [min(it["peers"].values()) / it["ours"] for it in rounds]
        for title, it in [("best peer", best), *((PEERS[it].title, us[it]) for it in us)]:
            ratios[title][0].append(it / ours_us)
            ratios[title][1].append(it / default_us)
        cells = [f"{us[it]:.1f}" if it in us else "-" for it in peers]
        cells += [f"{default_us:.1f}", f"{ours_us:.1f}", f"{best / default_us:.2f}", f"{best / ours_us:.2f}"]
        cells += [f"{min(each):.2f} to {max(each):.2f}", rounds[0]["tier"]]
        say(f"| {name} | " + " | ".join(cells) + " |")
    say("\nGeometric means of a peer's time by ours, and the least:\n")
    say("| | workloads | tuned | least | default | least |\n|---|---|---|---|---|---|")
    for title, both in ratios.items():
        if not both[0]:
            continue
        cells = [f"{of(found):.2f}" for found in both for of in (statistics.geometric_mean, min)]
        say(f"| {title} | {len(both[0])} | " + " | ".join(cells) + " |")


def main():
    said = arguments()
    # Libraries print warnings where tables go, from Python and from C++.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as tables:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        with contextlib.redirect_stdout(sys.stderr):
            return measure_all(said, tables)


def measure_all(said, tables):
    """What the command line asks for; the status to exit with."""
    set_threads(said.threads)
    keep_memory()
    names = [it for it in OPERATIONS if said.only in it]
    if said.tune_only:
        peer = PEERS["tvm"].loaded(said)
        return tune(names, peer, said.threads, tables) if peer else 1
    peers = {key: peer.loaded(said) for key, peer in PEERS.items() if key not in said.without}
    peers = {key: make for key, make in peers.items() if make}
    if not peers:
        print("no peer is left", file=sys.stderr)
        return 1
    ours("gap_2048x7x7")  # builds the tool
    runs = {name: made(name, peers, said.threads) for name in names}
    measured = {name: [] for name, of_peers in runs.items() if of_peers}
    for number in range(said.rounds):
        for name, rounds in measured.items():
            print(f"round {number + 1}: {name}", file=sys.stderr)
            rounds.append(measure(name, runs[name]))
        if said.json:
            write(said, peers, measured)
    report(peers, measured, tables)


if __name__ == "__main__":
    sys.exit(main())
