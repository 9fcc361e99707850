"""Measures the workloads of `kernels/` beside PyTorch and ONNX Runtime, in one run.

    python3 -m venv venv && venv/bin/pip install torch numpy onnx onnxruntime
    venv/bin/python docs/results/peers.py --threads 2 > table.md

Each round goes through all workloads and measures each peer, our kernel and our default schedule
one after the other, so that a slow minute of a shared machine hits all of them. What is compared is
the median over rounds of each round's median; the spread is that of the ratio to the best peer of
the round. Weights are constants to all but PyTorch eager, which takes them as they are.
`--no-compile` leaves out `torch.compile(max-autotune)`, which takes minutes to compile.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Callable

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper


def random(*shape):
    return np.random.uniform(-1, 1, shape).astype(np.float32)


@dataclass
class Workload:
    """A program: what it is given, its constants, and how the peers say it."""

    inputs: list
    weights: list
    eager: Callable
    nodes: list

    def names(self):
        n = len(self.inputs) + len(self.weights)
        return [f"x{at}" for at in range(n)]


def node(op, n_inputs=2, **attributes):
    return helper.make_node(op, [f"x{at}" for at in range(n_inputs)], ["y"], **attributes)


def conv(c, size, o, kernel, stride=1, groups=1):
    pad = kernel // 2
    return Workload(
        [random(1, c, size, size)],
        [random(o, c // groups, kernel, kernel)],
        lambda x, w: F.conv2d(x, w, stride=stride, padding=pad, groups=groups),
        [node("Conv", strides=[stride] * 2, pads=[pad] * 4, group=groups)],
    )


def product(m, n, k):
    return Workload([random(m, k)], [random(k, n)], torch.matmul, [node("MatMul")])


def products(batch, m, n, k, transposed=False):
    if not transposed:
        arrays = [random(batch, m, k), random(batch, k, n)]
        return Workload(arrays, [], torch.matmul, [node("MatMul")])
    return Workload(
        [random(batch, m, k), random(batch, n, k)],
        [],
        lambda a, b: torch.matmul(a, b.mT),
        [
            helper.make_node("Transpose", ["x1"], ["t"], perm=[0, 2, 1]),
            helper.make_node("MatMul", ["x0", "t"], ["y"]),
        ],
    )


def bias_gelu():
    return Workload(
        [random(128, 768)],
        [random(768, 3072), random(3072)],
        lambda x, w, b: F.gelu(torch.addmm(b, x, w)),
        [
            helper.make_node("MatMul", ["x0", "x1"], ["m"]),
            helper.make_node("Add", ["m", "x2"], ["s"]),
            helper.make_node("Gelu", ["s"], ["y"]),
        ],
    )


def layer_norm():
    return Workload(
        [random(1024, 768)],
        [random(768), random(768)],
        lambda x, gamma, beta: F.layer_norm(x, (768,), gamma, beta, 1e-5),
        [node("LayerNormalization", 3, axis=-1, epsilon=1e-5)],
    )


def softmax():
    return Workload([random(4096, 1024)], [], lambda x: torch.softmax(x, -1), [node("Softmax", 1)])


def add_relu():
    nodes = [
        helper.make_node("Add", ["x0", "x1"], ["s"]),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    inputs = [random(256, 56, 56), random(256, 56, 56)]
    return Workload(inputs, [], lambda x, y: F.relu(x + y), nodes)


def average():
    inputs = [random(1, 2048, 7, 7)]
    return Workload(
        inputs, [], lambda x: F.adaptive_avg_pool2d(x, 1), [node("GlobalAveragePool", 1)]
    )


WORKLOADS = {
    "matmul_512": lambda: product(512, 512, 512),
    "matmul_1024": lambda: product(1024, 1024, 1024),
    "bert_proj": lambda: product(128, 768, 768),
    "bert_ffn1": lambda: product(128, 3072, 768),
    "bert_ffn2": lambda: product(128, 768, 3072),
    "bert_attn_qk": lambda: products(12, 128, 128, 64, transposed=True),
    "bert_attn_av": lambda: products(12, 128, 64, 128),
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


def eager(workload, _):
    arguments = [torch.from_numpy(it) for it in workload.inputs + workload.weights]
    return lambda: workload.eager(*arguments).numpy()


class Module(torch.nn.Module):
    """A workload whose weights are constants once it is frozen."""

    def __init__(self, workload):
        super().__init__()
        self.function = workload.eager
        weights = [torch.nn.Parameter(torch.from_numpy(it)) for it in workload.weights]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *inputs):
        return self.function(*inputs, *self.weights)


def max_autotune(workload, _):
    torch._dynamo.reset()
    options = {
        "freezing": True,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP,ATEN",
    }
    module = torch.compile(Module(workload).eval(), options=options)
    inputs = [torch.from_numpy(it) for it in workload.inputs]
    return lambda: module(*inputs).numpy()


def onnx_runtime(workload, threads):
    names = workload.names()
    of_inputs = names[: len(workload.inputs)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        workload.nodes,
        "workload",
        [info(name, TensorProto.FLOAT, it.shape) for name, it in zip(of_inputs, workload.inputs)],
        [info("y", TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(it, name)
            for name, it in zip(names[len(of_inputs) :], workload.weights)
        ],
    )
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    shape = eager(workload, threads)().shape
    result = np.zeros(shape, np.float32)
    # Bound once: a run neither copies nor allocates.
    binding = session.io_binding()
    for name, it in zip(of_inputs, workload.inputs):
        binding.bind_cpu_input(name, it)
    binding.bind_output("y", "cpu", 0, np.float32, shape, result.ctypes.data)

    def run():
        session.run_with_iobinding(binding)
        return result

    return run


PEERS = {"PyTorch": eager, "max-autotune": max_autotune, "ONNX Runtime": onnx_runtime}


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
    # Threads that wait for more work by spinning have given up by then.
    time.sleep(0.3)
    return statistics.median(found)


def ours(name):
    command = ["cargo", "tvmtune", "bench", "-p", "tvmtune-kernels", "-k", name, "--json"]
    lines = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return next(line for line in lines if line["name"] == name)


def measure(name, peers, threads, number):
    """The median of each peer, ours and our default, in us."""
    np.random.seed(number)
    workload = WORKLOADS[name]()
    runs = {peer: make(workload, threads) for peer, make in peers.items()}
    expected = eager(workload, threads)()
    found = {}
    for peer, run in runs.items():
        error = np.abs(run() - expected).max() / np.abs(expected).max()
        if error > 1e-3:
            print(f"{name}: {peer} differs by {error:.1e}", file=sys.stderr)
            continue
        found[peer] = median_us(run)
    line = ours(name)
    return found, line["latency_us"], line["default_us"] or line["latency_us"], line["tier"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--no-compile", action="store_true")
    arguments.add_argument("--only", default="", help="workloads whose name contains this")
    arguments = arguments.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    peers = {it: make for it, make in PEERS.items() if make is not max_autotune or not arguments.no_compile}
    ours("gap_2048x7x7")  # builds the tool
    names = [it for it in WORKLOADS if arguments.only in it]
    measured = {name: [] for name in names}
    for number in range(arguments.rounds):
        for name in names:
            print(f"round {number + 1}: {name}", file=sys.stderr)
            measured[name].append(measure(name, peers, arguments.threads, number))
    heads = [f"{it}, us" for it in peers]
    print("| workload | " + " | ".join(heads) + " | default, us | ours, us | default ratio | ratio | of rounds | tier |")
    print("|---" * (len(heads) + 7) + "|")
    ratios, defaults, each_peer = [], [], {it: [] for it in peers}
    for name, rounds in measured.items():
        us = {it: statistics.median(round[0][it] for round in rounds if it in round[0]) for it in peers}
        ours_us, default_us = (statistics.median(it[n] for it in rounds) for n in (1, 2))
        best = min(us.values())
        each = [min(it[0].values()) / it[1] for it in rounds]
        ratios.append(best / ours_us)
        defaults.append(best / default_us)
        for it in peers:
            each_peer[it].append(us[it] / ours_us)
        cells = [f"{us[it]:.1f}" for it in peers] + [f"{default_us:.1f}", f"{ours_us:.1f}"]
        cells += [f"{defaults[-1]:.2f}", f"{ratios[-1]:.2f}", f"{min(each):.2f} to {max(each):.2f}"]
        print(f"| {name} | " + " | ".join(cells) + f" | {rounds[0][3]} |")
    for what, found in [("best peer, tuned", ratios), ("best peer, default", defaults), *each_peer.items()]:
        mean = statistics.geometric_mean(found)
        print(f"\nGeometric mean of the ratios to ours, {what}: **{mean:.2f}**, least {min(found):.2f}.")


if __name__ == "__main__":
    main()
