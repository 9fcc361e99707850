"""Measures the workloads of `kernels/` beside PyTorch, in one run, and prints a table in Markdown.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python docs/results/pytorch.py --threads 2 > table.md

Each round goes through all workloads and measures PyTorch (eager), our kernel and our default
schedule one after the other, so that a slow minute of a shared machine hits all three. What is
compared is the median over rounds of each round's median; the spread is that of the ratio.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F


def conv(c, size, o, kernel, stride=1, groups=1):
    x = torch.randn(1, c, size, size)
    w = torch.randn(o, c // groups, kernel, kernel)
    return lambda: F.conv2d(x, w, stride=stride, padding=kernel // 2, groups=groups)


def product(m, n, k, batch=None, transposed=False):
    lead = [batch] if batch else []
    a = torch.randn(*lead, m, k)
    b = torch.randn(*lead, n, k).mT if transposed else torch.randn(*lead, k, n)
    return lambda: torch.matmul(a, b)


def bias_gelu():
    x, w, b = torch.randn(128, 768), torch.randn(768, 3072), torch.randn(3072)
    return lambda: F.gelu(torch.addmm(b, x, w))


def softmax():
    x = torch.randn(4096, 1024)
    return lambda: torch.softmax(x, -1)


def layer_norm():
    x, gamma, beta = torch.randn(1024, 768), torch.randn(768), torch.randn(768)
    return lambda: F.layer_norm(x, (768,), gamma, beta, 1e-5)


def add_relu():
    x, y = torch.randn(256, 56, 56), torch.randn(256, 56, 56)
    return lambda: F.relu(x + y)


def average():
    x = torch.randn(1, 2048, 7, 7)
    return lambda: F.adaptive_avg_pool2d(x, 1)


WORKLOADS = {
    "matmul_512": lambda: product(512, 512, 512),
    "matmul_1024": lambda: product(1024, 1024, 1024),
    "bert_proj": lambda: product(128, 768, 768),
    "bert_ffn1": lambda: product(128, 3072, 768),
    "bert_ffn2": lambda: product(128, 768, 3072),
    "bert_attn_qk": lambda: product(128, 128, 64, batch=12, transposed=True),
    "bert_attn_av": lambda: product(128, 64, 128, batch=12),
    "resnet_stem_7x7s2": lambda: conv(3, 224, 64, 7, stride=2),
    "resnet_3x3_64_56": lambda: conv(64, 56, 64, 3),
    "resnet_3x3_128_28": lambda: conv(128, 28, 128, 3),
    "resnet_3x3_256_14": lambda: conv(256, 14, 256, 3),
    "resnet_3x3_512_7": lambda: conv(512, 7, 512, 3),
    "resnet50_1x1_64_256_56": lambda: conv(64, 56, 256, 1),
    "resnet50_1x1_1024_256_14": lambda: conv(1024, 14, 256, 1),
    "resnet50_1x1s2_256_512_56": lambda: conv(256, 56, 512, 1, stride=2),
    "alexnet_5x5_64_192_27": lambda: conv(64, 27, 192, 5),
    "googlenet3a_3x3_96_128_28": lambda: conv(96, 28, 128, 3),
    "googlenet3a_5x5_16_32_28": lambda: conv(16, 28, 32, 5),
    "vgg16_3x3_64_64_224": lambda: conv(64, 224, 64, 3),
    "vgg16_3x3_512_512_28": lambda: conv(512, 28, 512, 3),
    "squeezenet_squeeze_96_16_54": lambda: conv(96, 54, 16, 1),
    "squeezenet_expand_16_64_54": lambda: conv(16, 54, 64, 3),
    "mobilenet_dw_32_112": lambda: conv(32, 112, 32, 3, groups=32),
    "mobilenet_dw_512_14": lambda: conv(512, 14, 512, 3, groups=512),
    "softmax_4096x1024": softmax,
    "layernorm_1024x768": layer_norm,
    "matmul_bias_gelu": bias_gelu,
    "add_relu_256x56x56": add_relu,
    "gap_2048x7x7": average,
}


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


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments.add_argument("--rounds", type=int, default=3)
    arguments = arguments.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    ours("gap_2048x7x7")  # builds the tool
    measured = {name: [] for name in WORKLOADS}
    for number in range(arguments.rounds):
        for name, make in WORKLOADS.items():
            print(f"round {number + 1}: {name}", file=sys.stderr)
            torch.manual_seed(number)
            measured[name].append((median_us(make()), ours(name)))
    print("| workload | PyTorch, us | default, us | ours, us | default ratio | ratio | of rounds | tier |")
    print("|---|---|---|---|---|---|---|---|")
    ratios, defaults = [], []
    for name, rounds in measured.items():
        each = [torch_us / line["latency_us"] for torch_us, line in rounds]
        torch_us = statistics.median(it[0] for it in rounds)
        line_us = statistics.median(it[1]["latency_us"] for it in rounds)
        default_us = statistics.median(it[1]["default_us"] or it[1]["latency_us"] for it in rounds)
        ratios.append(torch_us / line_us)
        defaults.append(torch_us / default_us)
        print(
            f"| {name} | {torch_us:.1f} | {default_us:.1f} | {line_us:.1f} | {defaults[-1]:.2f} "
            f"| {ratios[-1]:.2f} | {min(each):.2f} to {max(each):.2f} | {rounds[0][1]['tier']} |"
        )
    for what, found in [("tuned", ratios), ("default", defaults)]:
        mean = statistics.geometric_mean(found)
        print(f"\nGeometric mean of the ratios, {what}: **{mean:.2f}**, worst {min(found):.2f}.")


if __name__ == "__main__":
    main()
