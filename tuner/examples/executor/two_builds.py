"""Times two `cargo build`s that tune, alone and at once, and prints what their logs say of disturbance.

    python3 tuner/examples/executor/two_builds.py FOLDER [--trials 200] [--rounds 3]

Two crates with a product each are made in FOLDER and built once without tuning, which takes minutes; what is timed
compiles the crate itself and tunes. Each build is limited by its number of trials. A build alone begins with an
empty cache; two at once share one, which is empty at first. Nothing else should run meanwhile.
"""

import argparse
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MANIFEST = """[package]
name = "build-{name}"
version = "0.1.0"
edition = "2024"

[dependencies]
tvmtune-runtime = {{ path = "{root}/tvmtune-runtime" }}

[build-dependencies]
tvmtune-build = {{ path = "{root}/tvmtune-build" }}

[workspace]
"""
SOURCE = """#[tvmtune_runtime::autotune(dims(M = {rows}, N = 512, K = 512))]
pub fn product_{name}(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}}
"""
BUDGET = '[budget]\ntrials = {trials}\nper_kernel = "10m"\ntotal = "10m"\n'
# From here on a session measures a batch again.
DISTURBED = 1.25


class Crate:
    def __init__(self, folder, name, rows, trials):
        self.name, self.folder, self.target = name, folder / name, folder / f"target-{name}"
        (self.folder / "src").mkdir(parents=True, exist_ok=True)
        (self.folder / "Cargo.toml").write_text(MANIFEST.format(name=name, root=ROOT))
        (self.folder / "build.rs").write_text("fn main() {\n    tvmtune_build::run();\n}\n")
        (self.folder / "src/lib.rs").write_text(SOURCE.format(name=name, rows=rows))
        (self.folder / "tvmtune.toml").write_text(BUDGET.format(trials=trials))

    def start(self, cache, mode):
        """Starts a build whose source has changed."""
        (self.folder / "src/lib.rs").touch()
        environment = {name: it for name, it in os.environ.items() if name not in ("CI", "TVMTUNE_BUDGET")}
        environment |= {"TVMTUNE": mode, "TVMTUNE_CACHE": str(cache), "CARGO_TARGET_DIR": str(self.target)}
        command = ["cargo", "build", "--quiet", "--manifest-path", str(self.folder / "Cargo.toml")]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)


def run(crates, cache, mode="tune"):
    """Builds crates at once; returns the seconds of each."""
    shutil.rmtree(cache, ignore_errors=True)
    began = time.monotonic()
    builds, seconds = {it.name: it.start(cache, mode) for it in crates}, {}
    while len(seconds) < len(builds):
        for name, build in builds.items():
            if name not in seconds and build.poll() is not None:
                assert build.returncode == 0, build.stderr.read().decode()
                seconds[name] = time.monotonic() - began
        time.sleep(0.02)
    return seconds


def report(cache):
    """Prints the drift of each log of trials in a cache, and the measurements that overlap."""
    spans = []
    for path in sorted(cache.glob("**/trials/**/*.jsonl")):
        trials = [json.loads(line) for line in path.read_text().splitlines()]
        timed = [it for it in trials if it["measure_ms"] > 0]
        slow = [it["slowdown"] for it in timed]
        spans.append([(it["unix_ms"] - it["measure_ms"], it["unix_ms"]) for it in timed])
        disturbed = sum(it >= DISTURBED for it in slow)
        print(f"  {path.parent.name}: {len(trials)} trials, slowdown {min(slow):.2f} to {max(slow):.2f}, {disturbed} disturbed")
    assert spans, f"no build tuned in {cache}"
    if len(spans) == 2:
        # Times are rounded to ms.
        overlap = sum(a[0] + 2 < b[1] and b[0] + 2 < a[1] for a in spans[0] for b in spans[1])
        print(f"  {overlap} pairs of measurements at once")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    crates = [Crate(folder, name, rows, arguments.trials) for name, rows in (("a", 192), ("b", 224))]
    for crate in crates:
        run([crate], folder / "cache", "use")
    for number in range(1, arguments.rounds + 1):
        alone = {}
        for crate in crates:
            alone |= run([crate], folder / "cache")
        both = run(crates, folder / "cache")
        for name, seconds in both.items():
            share = seconds / (2 * alone[name])
            print(f"round {number} {name}: alone {alone[name]:.1f} s, at once {seconds:.1f} s, {share:.2f} of twice the time alone")
        report(folder / "cache")


if __name__ == "__main__":
    main()
