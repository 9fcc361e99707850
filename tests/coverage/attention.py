"""Times attention beside PyTorch's fused attention, in alternation, and writes a table.

    python tests/coverage/attention.py path/to/cargo-tvmtune [--rounds 3] [--threads 2]
        [--only 'd64_.*_causal'] [--cells cells.json] > table.md

Ours is the definition as users write it, by its default schedule; theirs is `scaled_dot_product_attention` on tensors
of [batch, heads, tokens, features]. Both find their operands in caches, as far as they fit. A causal program counts
as half of the operations. With `--cells`, the times are kept in that file, and what it has is not timed again.
"""

import argparse
import itertools
import json
import math
import pathlib
import re
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F

from engines import median_us
from signatures import HERE

HEADS = 4
FEATURES = (32, 64, 128)
TOKENS = (16, 64, 128, 256, 512, 1024, 2048, 4096)
BATCHES = (1, 32)
# Elements of the scores of all heads beyond which a batch is not timed: calls of seconds.
MOST_SCORES = 32 * HEADS * 1024**2

MANIFEST = """[package]
name = "attention"
version = "0.0.0"
edition = "2024"

[dependencies]
tvmtune-runtime = {{ path = "{runtime}" }}

[workspace]
"""

PROGRAM = """
#[autotune(dims(N = {n}, S = {tokens}, D = {features}))]
pub fn {name}(
    q: Tensor<f32, N, S, D>,
    k: Tensor<f32, N, S, D>,
    v: Tensor<f32, N, S, D>,
) -> Tensor<f32, N, S, D> {{
    let s = compute(|n, i, j| {score});
    let m = compute(|n, i| max(0..S, |j| s[[n, i, j]]));
    let e = compute(|n, i, j| exp(s[[n, i, j]] - m[[n, i]]));
    let t = compute(|n, i| sum(0..S, |j| e[[n, i, j]]));
    compute(|n, i, d| sum(0..S, |j| e[[n, i, j]] * v[[n, j, d]]) / t[[n, i]])
}}
"""


class Case:
    """A shape of attention."""

    def __init__(self, features, tokens, batch, causal):
        self.features, self.tokens, self.batch, self.causal = features, tokens, batch, causal
        self.name = f"d{features}_s{tokens}_b{batch}_{'causal' if causal else 'full'}"
        self.operations = 4 * batch * HEADS * tokens**2 * features / (2 if causal else 1)

    def program(self):
        dot = f"sum(0..D, |d| q[[n, i, d]] * k[[n, j, d]]) * {self.features**-0.5}"
        score = f"if j <= i {{ {dot} }} else {{ f32::NEG_INFINITY }}" if self.causal else dot
        n = self.batch * HEADS
        return PROGRAM.format(
            n=n, tokens=self.tokens, features=self.features, name=self.name, score=score
        )

    def theirs(self):
        shape = (self.batch, HEADS, self.tokens, self.features)
        q, k, v = (torch.randn(shape) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


def cases():
    found = itertools.starmap(Case, itertools.product(FEATURES, TOKENS, BATCHES, (False, True)))
    return [it for it in found if it.batch * HEADS * it.tokens**2 <= MOST_SCORES or it.batch == 1]


def write_crate(folder):
    (folder / "src").mkdir()
    (folder / "Cargo.toml").write_text(MANIFEST.format(runtime=HERE.parents[1] / "tvmtune-runtime"))
    programs = "".join(it.program() for it in cases())
    (folder / "src/lib.rs").write_text("use tvmtune_runtime::autotune;\n" + programs)


def ours(command, folder, case):
    """The median latency of the default schedule, in us."""
    run = [command, "tvmtune", "bench", "--json", "--default", "--operands", "warm", "--target", "cpu"]
    run += ["--kernel", case.name, "--manifest-path", str(folder / "Cargo.toml")]
    (row,) = json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    return row["default_us"]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--cells", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path = options.cells
    cells = json.loads(path.read_text()) if path and path.exists() else {}
    print(f"PyTorch {torch.__version__}, {options.threads} threads, {options.rounds} rounds.\n")
    print("| features | tokens | batch | | ours, us | GFLOP/s | PyTorch, us | PyTorch / ours |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_crate(folder)
        for case in cases():
            if not re.search(options.only, case.name):
                continue
            rounds = cells.setdefault(case.name, [])
            while len(rounds) < options.rounds:
                mine = ours(options.command, folder, case)
                rounds.append([mine, median_us(case.theirs())])
                if path:
                    path.write_text(json.dumps(cells, indent=1))
            found = [theirs / mine for mine, theirs in rounds]
            ratios.append(statistics.median(found))
            mine, theirs = (statistics.median(it) for it in zip(*rounds))
            kind = "causal" if case.causal else ""
            spread = f"{ratios[-1]:.2f} ({min(found):.2f} to {max(found):.2f})"
            print(
                f"| {case.features} | {case.tokens} | {case.batch} | {kind} | {mine:.4g} "
                f"| {case.operations / mine / 1e3:.0f} | {theirs:.4g} | {spread} |",
                flush=True,
            )
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"\nGeometric mean of {len(ratios)}: {mean:.2f}; {sum(it < 1.2 for it in ratios)} below 1.2.")


main()
