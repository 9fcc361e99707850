"""What others take for the programs of a bundle: PyTorch eager, products by cuBLASLt, and
torch.compile(max-autotune).

Measured as ours are: launches captured in a CUDA graph that goes through copies of the arguments
larger than the second-level cache, timed by events, samples and quantiles. Matrix products of
PyTorch are those of cuBLAS, convolutions those of cuDNN. By cuBLASLt, what follows a product is part
of it where the library has that; its GELU is the approximation by tanh.

Every result is a line of results/peers.jsonl as soon as it is known; what is there is not measured
again. `--table` merges with ours, and measures nothing.
"""

import argparse
import json
import math
import pathlib
import statistics
import time

# Where eager calls one kernel of a library, so that compiling promises least: these come last.
PLAIN = ("matmul", "linear_bf16", "linear_tf32", "batched", "matvec", "transpose", "embed", "conv_nhwc", "conv_strided")

# What is a product of matrices.
PRODUCTS = ("matmul", "linear", "batched", "few_rows")

HERE = pathlib.Path(__file__).resolve().parent
MODES = ("eager", "cublaslt", "compile")
SAMPLE_MS = 0.3
ROUNDS = 15


def extents(dims):
    """The extents of `M = 4096, N = 4096`, by name."""
    pairs = (part.split("=") for part in dims.split(","))
    return {name.strip(): int(value) for name, value in pairs}


def operations(torch):
    """For each case, its arguments as (type, shape) and what computes it."""
    F = torch.nn.functional
    f32, f16, bf16, i8, i32 = torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.int32
    scale = 0.375

    def attention(q, k, v):
        return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]

    def causal_attention(q, k, v):
        return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

    def masked_softmax(x):
        mask = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).tril()
        return torch.softmax((x.float() * scale).masked_fill(~mask, -math.inf), -1).half()

    def rms_norm(x, g):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + scale) * g.float()).half()

    def running_mean(x):
        n = torch.arange(1, x.shape[0] + 1, device=x.device)[:, None]
        return (x.cumsum(0, dtype=f32) / n).to(bf16)

    def quantize(x):
        s = x.abs().amax(-1) / 127.0
        q = torch.where(s[:, None] > 0, x / s[:, None], torch.zeros_like(x))
        return (q + 0.25).floor().clamp(-127, 127).to(i8), s

    def conv_nhwc(x, w, stride=1):
        y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1, stride=stride)
        return y.permute(0, 2, 3, 1)

    def conv_bn_relu(x, w, scale, shift):
        return (conv_nhwc(x, w).float() * scale + shift).relu().half()

    def conv_grouped(x, w):
        b, g, c, height, width = x.shape
        y = F.conv2d(x.view(b, g * c, height, width), w.flatten(0, 1), padding=1, groups=g)
        return y.view(b, g, -1, height, width)

    def matmul_i8(x, w):
        return torch._int_mm(x, w.t())

    def residual_layernorm(x, y, a, g, b):
        return F.layer_norm(x + y + a, g.shape, g, b)

    return {
        "matmul_f32": (lambda M, N, K: [(f32, M, K), (f32, K, N)], torch.matmul),
        "linear_f32": (
            lambda M, N, K: [(f32, M, K), (f32, N, K), (f32, N)],
            lambda x, w, b: F.linear(x, w, b).relu(),
        ),
        "matvec_f32": (lambda N, K: [(f32, K), (f32, N, K)], lambda x, w: w @ x),
        "linear_bf16": (lambda M, N, K: [(bf16, M, K), (bf16, N, K)], F.linear),
        "linear_tf32": (lambda M, N, K: [(f32, M, K), (f32, N, K)], F.linear),
        "matmul_tf32": (lambda M, N, K: [(f32, M, K), (f32, K, N)], torch.matmul),
        "matmul_bf16": (
            lambda M, N, K: [(bf16, M, K), (bf16, K, N)],
            lambda x, w: (x @ w).float(),
        ),
        "linear_gelu_f16": (
            lambda M, N, K: [(f16, M, K), (f16, N, K), (f16, N)],
            lambda x, w, b: F.gelu(F.linear(x, w, b)),
        ),
        "batched_f16": (
            lambda B, M, N, K: [(f16, B, M, K), (f16, B, N, K)],
            lambda x, w: torch.bmm(x, w.transpose(1, 2)),
        ),
        "batched_transposed_f16": (
            lambda B, M, N, K: [(f16, B, K, M), (f16, B, K, N)],
            lambda x, w: torch.bmm(x.transpose(1, 2), w),
        ),
        "matmul_i8": (lambda M, N, K: [(i8, M, K), (i8, N, K)], matmul_i8),
        "conv_relu_f32": (
            lambda B, C, H, W, O, T: [(f32, B, C, H, W), (f32, O, C, T, T), (f32, O)],
            lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(),
        ),
        "conv_strided_f32": (
            lambda B, C, H, W, O, T: [(f32, B, C, H, W), (f32, O, C, T, T)],
            lambda x, w: F.conv2d(x, w, padding=1, stride=2),
        ),
        "conv_nhwc_f16": (
            lambda B, C, H, W, O, T: [(f16, B, H, W, C), (f16, O, T, T, C)],
            conv_nhwc,
        ),
        "conv_bn_relu_f16": (
            lambda B, C, H, W, O, T: [(f16, B, H, W, C), (f16, O, T, T, C), (f32, O), (f32, O)],
            conv_bn_relu,
        ),
        "conv_grouped_f32": (
            lambda B, G, C, H, W, O, T: [(f32, B, G, C, H, W), (f32, G, O, C, T, T)],
            conv_grouped,
        ),
        "conv_nhwc_strided_f16": (
            lambda B, C, H, W, O, T: [(f16, B, H, W, C), (f16, O, T, T, C)],
            lambda x, w: conv_nhwc(x, w, 2),
        ),
        "depthwise_f32": (
            lambda B, C, H, W, T: [(f32, B, C, H, W), (f32, C, 1, T, T)],
            lambda x, w: F.conv2d(x, w, padding=1, groups=w.shape[0]),
        ),
        "softmax_f32": (lambda R, D: [(f32, R, D)], lambda x: torch.softmax(x, -1)),
        "masked_softmax_f16": (lambda H, S: [(f16, H, S, S)], masked_softmax),
        "layernorm_bf16": (
            lambda R, D: [(bf16, R, D), (bf16, D), (bf16, D)],
            lambda x, g, b: F.layer_norm(x, g.shape, g, b),
        ),
        "residual_layernorm_f32": (
            lambda R, D: [(f32, R, D), (f32, R, D), (f32, D), (f32, D), (f32, D)],
            residual_layernorm,
        ),
        "rms_norm_f16": (lambda R, D: [(f16, R, D), (f16, D)], rms_norm),
        "row_sums_f32": (lambda M, N: [(f32, M, N)], lambda x: x.sum(-1)),
        "column_max_f32": (lambda M, N: [(f32, M, N)], lambda x: x.amax(0)),
        "total_f32": (lambda N: [(f32, N)], torch.sum),
        "column_mean_f16": (lambda M, N: [(f16, M, N)], lambda x: x.mean(0, dtype=f32).to(f16)),
        "mean_pool_f16": (
            lambda B, S, D: [(f16, B, S, D)],
            lambda x: x.mean(1, dtype=f32).to(f16),
        ),
        "column_variance_f32": (lambda M, D: [(f32, M, D)], lambda x: x.var(0, correction=0)),
        "cumulative_sum_f32": (lambda R, N: [(f32, R, N)], lambda x: x.cumsum(-1)),
        "running_mean_bf16": (lambda T, C: [(bf16, T, C)], running_mean),
        "few_rows_f32": (
            lambda M, N, K: [(f32, M, K), (f32, N, K)],
            lambda x, w: torch.relu(x @ w.t()),
        ),
        "few_rows_f16": (
            lambda M, N, K: [(f16, M, K), (f16, N, K)],
            lambda x, w: x @ w.t(),
        ),
        "attention_f16": (lambda H, S, D: [(f16, H, S, D)] * 3, attention),
        "causal_attention_bf16": (lambda H, S, D: [(bf16, H, S, D)] * 3, causal_attention),
        "gelu_scaled_f32": (
            lambda N: [(f32, N), (f32, N)],
            lambda x, y: F.gelu(x) * y + torch.tanh(x),
        ),
        "bias_silu_f16": (
            lambda M, N: [(f16, M, N), (f16, N)],
            lambda x, b: F.silu(x.float() * scale + b.float()).half(),
        ),
        "quantize_f32": (lambda M, K: [(f32, M, K)], quantize),
        "transpose_f16": (lambda M, N: [(f16, M, N)], lambda x: x.t().contiguous()),
        "transpose_f32": (
            lambda B, M, N: [(f32, B, M, N)],
            lambda x: x.transpose(1, 2).contiguous(),
        ),
        "split_heads_bf16": (
            lambda M, S: [(bf16, M, S * 32)],
            lambda x: x.view(x.shape[0], -1, 32).transpose(0, 1).contiguous(),
        ),
        "embed_f32": (lambda T, V, D: [(i32, T), (f32, V, D)], lambda ids, w: F.embedding(ids, w)),
    }


def with_epilogue(torch):
    """Products that cuBLASLt does together with what follows them."""
    return {
        "linear_f32": lambda x, w, b: torch._addmm_activation(b, x, w.t()),
        "linear_gelu_f16": lambda x, w, b: torch._addmm_activation(b, x, w.t(), use_gelu=True),
    }


def random(torch, kind, shape, below):
    if kind == torch.int32:
        return torch.randint(0, below, shape, dtype=kind, device="cuda")
    if kind == torch.int8:
        return torch.randint(-100, 101, shape, dtype=kind, device="cuda")
    return torch.rand(shape, device="cuda").mul_(2).sub_(1).to(kind)


def measure(torch, function, make):
    """Samples of one call, in ns."""
    first = make()
    n_bytes = sum(it.numel() * it.element_size() for it in first)
    result = function(*first)
    n_bytes += sum(
        it.numel() * it.element_size() for it in (result if isinstance(result, tuple) else [result])
    )
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    n_sets = min(max(math.ceil(2 * l2 / n_bytes), 2), 128)
    sets = [first] + [make() for _ in range(n_sets - 1)]
    stream = torch.cuda.Stream()
    event = lambda: torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        for arguments in sets[:3]:
            function(*arguments)
        start, end = event(), event()
        start.record()
        function(*first)
        end.record()
        end.synchronize()
        n = min(max(math.ceil(SAMPLE_MS / max(start.elapsed_time(end), 1e-3)), 1), 200)
        n = -(-n // n_sets) * n_sets
        graph, results = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, stream=stream):
            # Results are kept, so that none overwrites another in the cache.
            results.extend(function(*sets[it % n_sets]) for it in range(n))
        warm = time.monotonic() + 0.03
        while time.monotonic() < warm:
            graph.replay()
            stream.synchronize()
        samples = []
        for _ in range(ROUNDS):
            start, end = event(), event()
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end) * 1e6 / n)
            if sum(samples) * n > 5e8 and len(samples) >= 3:
                break
    return samples


def read(path):
    if not path.exists():
        return []
    lines = []
    for line in path.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            pass  # cut off
    return lines


def programs(only):
    """The programs that are timed, each once."""
    items = json.loads((HERE / "items.json").read_text())["items"]
    found = {(it["case"], it["dims"]): it for it in items if it["goal"] == "time"}
    return [key for key in found if only in key[0]]


def run(out, only, modes, seconds):
    import torch

    began = time.monotonic()

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    path = out / "peers.jsonl"
    known = {(it["case"], it["dims"], it["mode"]) for it in read(path)}
    known_operations = operations(torch)
    for mode in modes:
        wanted = programs(only)
        if mode == "cublaslt":
            wanted = [it for it in wanted if it[0].startswith(PRODUCTS)]
        torch.backends.cuda.preferred_blas_library("cublaslt" if mode == "cublaslt" else "default")
        if mode == "compile":
            wanted.sort(key=lambda it: it[0].startswith(PLAIN))
        for case, dims in wanted:
            if (case, dims, mode) in known or case not in known_operations:
                continue
            if time.monotonic() - began > seconds:
                print("no time is left; the next run goes on from here")
                return
            shapes, function = known_operations[case]
            sizes = extents(dims)
            arguments = shapes(**sizes)
            make = lambda: [random(torch, it[0], it[1:], sizes.get("V", 1)) for it in arguments]
            line = {"case": case, "dims": dims, "mode": mode, "torch": torch.__version__}
            line["device"] = torch.cuda.get_device_name(0)
            torch.backends.cuda.matmul.allow_tf32 = "tf32" in case
            try:
                if mode == "cublaslt":
                    function = with_epilogue(torch).get(case, function)
                if mode == "compile":
                    torch._dynamo.reset()
                    compiled = "max-autotune-no-cudagraphs"
                    function = torch.compile(function, mode=compiled, dynamic=False)
                with torch.no_grad():
                    line["samples_ns"] = measure(torch, function, make)
                print(f"{case} [{dims}] {mode}: {statistics.median(line['samples_ns']) / 1e3:.2f} us")
            except Exception as error:  # noqa: BLE001: whatever it is, the next one may work
                line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
                print(f"{case} [{dims}] {mode}: {line['error']}")
            line["unix_ms"] = int(time.time() * 1000)
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            torch.cuda.empty_cache()


def merge(out, only):
    ours = {}
    for line in read(out / "results.jsonl"):
        tried = line.get("tried")
        if not tried or tried["item"]["goal"] != "time" or "timed" not in tried["outcome"]:
            continue
        item = tried["item"]
        entry = {
            "source": item["source"],
            "artifact": item["artifact"],
            "median_ns": statistics.median(tried["outcome"]["timed"]["samples_ns"]),
            "predicted_ns": (item["predicted"] or {}).get("ns"),
            "flops": item["flops"],
            "bytes": item["bytes"],
        }
        ours.setdefault((item["case"], item["dims"]), []).append(entry)
    peers = {}
    for line in read(out / "peers.jsonl"):
        if "samples_ns" in line:
            key = (line["case"], line["dims"])
            peers.setdefault(key, {})[line["mode"]] = statistics.median(line["samples_ns"])
    merged, ratios = [], []
    head = "".join(f" {it:>10}" for it in ("ours us", "model us", *MODES))
    print(f"{'case':24} {'extents':40}{head} {'ratio':>6}")
    for case, dims in programs(only):
        mine, theirs = ours.get((case, dims), []), peers.get((case, dims), {})
        best = min(mine, key=lambda it: it["median_ns"], default=None)
        merged.append({"case": case, "dims": dims, "ours": mine, "peers_ns": theirs})
        show = lambda ns: f"{ns / 1e3:10.2f}" if ns else f"{'-':>10}"
        ratio = min(theirs.values()) / best["median_ns"] if best and theirs else None
        ratios += [ratio] if ratio else []
        print(
            f"{case:24} {dims:40} {show(best and best['median_ns'])} {show(best and best['predicted_ns'])} "
            + "".join(f"{show(theirs.get(it))} " for it in MODES)
            + (f"{ratio:6.2f}" if ratio else f"{'-':>6}")
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean over {len(ratios)} programs, best peer over ours: {mean:.3f}")
    (out / "merged.json").write_text(json.dumps(merged, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin nothing after")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.table:
        run(arguments.out, arguments.only, arguments.modes.split(","), arguments.seconds)
    merge(arguments.out, arguments.only)


if __name__ == "__main__":
    main()
