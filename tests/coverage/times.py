"""Times the operators of src/ beside other engines, in alternation, and writes a table.

    python tests/coverage/times.py path/to/cargo-tvmtune [--rounds 3] [--threads 2]
        [--engines eager,compile,onnxruntime,openvino] [--tuned] [--cells cells.json] > table.md

Ours are by their default schedules, and with `--tuned` also by what `cargo tvmtune tune` found before.
With `--cells`, the times are kept in that file, and what it has is not timed again.
"""

import argparse
import collections
import json
import math
import pathlib
import statistics
import subprocess
import sys

import torch

from engines import ENGINES, median_us
from signatures import HERE, operators


def ours(command, family):
    """The median latencies of each operator of a family, in us: by default, and as a build would have it,
    and the least that this machine could do with that arithmetic and those bytes. Both find their operands in caches, as the others do, which are called in a loop."""
    run = [command, "tvmtune", "bench", "--json", "--operands", "warm", "--kernel", f"{family}::"]
    run += ["--manifest-path", str(HERE / "Cargo.toml"), "--target", "cpu"]
    text = subprocess.run(run, capture_output=True, text=True).stdout
    found = {}
    for row in json.loads(text or "[]"):
        name = row["name"].split("::")[-1]
        found[name] = {"default": row["default_us"], "tuned": row["latency_us"]}
        if "roofline" in row:
            found[name]["least"] = row["roofline"] * row["latency_us"]
    return found


def prepared(engine, operator, threads):
    """An operator in an engine, ready to run; `None` if the engine does not have it."""
    try:
        run = ENGINES[engine](operator, threads)
        run()
        return run
    except Exception as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        print(f"{engine} {operator.name}: {line}"[:200], file=sys.stderr)
        return None


def timed(options):
    """The times of each operator, of each round one by engine."""
    path = pathlib.Path(options.cells) if options.cells else None
    cells = json.loads(path.read_text()) if path and path.exists() else {}
    families = collections.defaultdict(list)
    for it in operators():
        families[it.family].append(it)
    for family, members in families.items():
        rounds = options.rounds - min(len(cells.get(it.name, [])) for it in members)
        if rounds <= 0:
            continue
        with torch.no_grad():
            runs = {
                (engine, it.name): prepared(engine, it, options.threads)
                for it in members
                for engine in options.engines
            }
            for _ in range(rounds):
                mine = ours(options.command, family)
                for it in members:
                    of = dict(mine.get(it.name, {}))
                    for engine in options.engines:
                        run = runs[engine, it.name]
                        of[engine] = median_us(run) if run else None
                    cells.setdefault(it.name, []).append(of)
        torch.compiler.reset()
        if path:
            path.write_text(json.dumps(cells, indent=1))
    return cells


def ratio(rounds, engine, schedule):
    """The median over the rounds of an engine's time by ours."""
    found = [of[engine] / of[schedule] for of in rounds if of.get(engine) and of.get(schedule)]
    return statistics.median(found) if found else None


def share(rounds, schedule):
    """The median share of the roofline of this machine that our time has."""
    found = [of["least"] / of[schedule] for of in rounds if of.get("least") and of.get(schedule)]
    return statistics.median(found) if found else None


def summary(title, ratios, below):
    """A line on the ratios that there are."""
    found = [it for it in ratios if it]
    if not found:
        return f"{title}: none."
    mean = math.exp(statistics.mean(map(math.log, found)))
    middle, slow = statistics.median(found), sum(it < below for it in found)
    return (
        f"- {title}: {len(found)} operators, geometric mean {mean:.2f}, median {middle:.2f}, "
        f"{slow} below {below}."
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engines", type=lambda it: it.split(","), default=["eager"])
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--cells")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cells = timed(options)

    schedules = ["default", "tuned"] if options.tuned else ["default"]
    columns = [(schedule, engine) for engine in options.engines for schedule in schedules]
    print(f"PyTorch {torch.__version__}, {options.threads} threads, {options.rounds} rounds.\n")
    for schedule, engine in columns:
        ratios = [ratio(cells[it.name], engine, schedule) for it in operators()]
        limit = 0.9 if schedule == "default" else 1.0
        print(summary(f"{schedule}, beside {engine}", ratios, limit))

    names = [f"{schedule} / {engine}" for schedule, engine in columns]
    times = [f"{it}, us" for it in schedules] + [f"{it} / roofline" for it in schedules]
    print("\n| family | operator | " + " | ".join(times + names) + " |")
    print("|" + "---|" * (2 + len(times) + len(columns)))
    lines = []
    for it in operators():
        rounds = cells[it.name]
        mine = [[of[schedule] for of in rounds if of.get(schedule)] for schedule in schedules]
        if not all(mine):
            print(f"{it.family}::{it.name}: no latency", file=sys.stderr)
            continue
        ratios = [ratio(rounds, engine, schedule) for schedule, engine in columns]
        shown = [f"{statistics.median(of):.0f}" for of in mine]
        shares = [share(rounds, schedule) for schedule in schedules]
        shown += [f"{it:.0%}" if it else "-" for it in shares]
        shown += [f"{it:.2f}" if it else "-" for it in ratios]
        first = ratios[0] or math.inf
        lines.append((first, f"| {it.family} | {it.name} | " + " | ".join(shown) + " |"))
    print("\n".join(line for _, line in sorted(lines)))


main()
