"""The latency of all-MiniLM-L6-v2 in PyTorch, beside that of `minilm --bench`.

    pip install torch
    python bench_torch.py --device cuda

The same model, shapes and way of timing: from ids on the host to embeddings there, one batch after
the other. Weights are made up (`--weights DIR` reads model.safetensors), f32, without TF32. Where
something could be done in several ways, what PyTorch is faster with was chosen: one product for
queries, keys and values, no mask where no sentence is padded, ids that are a tensor already.

    eager      as it is written here
    graph      the same, captured once in a CUDA graph (on GPUs)
    compiled   torch.compile(mode="max-autotune")
"""

import argparse
import json
import math
import pathlib
import statistics
import time

import torch
from torch.nn import functional as F

WIDTH, INNER, HEADS, LAYERS = 384, 1536, 12, 6
WARM_UP = 3


class MiniLM(torch.nn.Module):
    """The encoder, with the mean over tokens that are no padding, scaled to length 1."""

    def __init__(self, tensors):
        super().__init__()
        embeddings = tensors["embeddings.word_embeddings.weight"]
        # Every token is of the first segment.
        places = tensors["embeddings.position_embeddings.weight"]
        places = places + tensors["embeddings.token_type_embeddings.weight"][0]
        norm = [tensors[f"embeddings.LayerNorm.{it}"] for it in ("weight", "bias")]
        self.embeddings = self.constants([embeddings, places, *norm])
        self.layers = torch.nn.ModuleList(self.constants(self.layer(tensors, n)) for n in range(LAYERS))

    @staticmethod
    def constants(tensors):
        return torch.nn.ParameterList(torch.nn.Parameter(it, requires_grad=False) for it in tensors)

    @staticmethod
    def layer(tensors, n):
        def both(name):
            return [tensors[f"encoder.layer.{n}.{name}.{it}"] for it in ("weight", "bias")]

        parts = [both(f"attention.self.{it}") for it in ("query", "key", "value")]
        qkv = [torch.cat(it) for it in zip(*parts)]
        names = ("attention.output.dense", "attention.output.LayerNorm")
        names += ("intermediate.dense", "output.dense", "output.LayerNorm")
        return [*qkv, *(it for name in names for it in both(name))]

    def forward(self, ids, mask=None):
        """`mask` is 1 for tokens and 0 for padding, of the shape of `ids`."""
        b, s = ids.shape
        words, places, gamma, beta = self.embeddings
        x = F.layer_norm(F.embedding(ids, words) + places[:s], (WIDTH,), gamma, beta, 1e-12)
        seen = None if mask is None else mask[:, None, None, :].bool()
        for layer in self.layers:
            qkv, qkv_bias, out, out_bias, gamma, beta, up, up_bias, down, down_bias, *norm = layer
            heads = F.linear(x, qkv, qkv_bias).view(b, s, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(*heads, attn_mask=seen)
            context = context.transpose(1, 2).reshape(b, s, WIDTH)
            x = F.layer_norm(F.linear(context, out, out_bias) + x, (WIDTH,), gamma, beta, 1e-12)
            inner = F.gelu(F.linear(x, up, up_bias))
            x = F.layer_norm(F.linear(inner, down, down_bias) + x, (WIDTH,), *norm, 1e-12)
        if mask is None:
            return F.normalize(x.mean(1))
        return F.normalize((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def made_up():
    """Tensors of the shapes of the model, which keep the size of what they are given."""
    shapes = {f"embeddings.{it}_embeddings.weight": (n, WIDTH) for it, n in (("word", 30522), ("position", 512), ("token_type", 2))}
    vectors = ["embeddings.LayerNorm"]
    for n in range(LAYERS):
        layer = f"encoder.layer.{n}."
        dense = {f"attention.self.{it}": (WIDTH, WIDTH) for it in ("query", "key", "value")}
        dense |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (INNER, WIDTH), "output.dense": (WIDTH, INNER)}
        for name, shape in dense.items():
            shapes |= {f"{layer}{name}.weight": shape, f"{layer}{name}.bias": shape[:1]}
        vectors += [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"]
    for name in vectors:
        shapes |= {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}
    generator = torch.Generator().manual_seed(1)

    def tensor(name, shape):
        if name.endswith("LayerNorm.weight"):
            return torch.rand(shape, generator=generator) * 0.4 + 0.8
        spread = 0.1 if len(shape) == 1 else 1 / math.sqrt(shape[-1])
        return torch.randn(shape, generator=generator) * spread

    return {name: tensor(name, shape) for name, shape in shapes.items()}


def read(path):
    """The tensors of a safetensors file: the length of a JSON header, the header, and numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, it in json.loads(data[8:start]).items():
        if name != "__metadata__" and it["dtype"] == "F32":
            begin, end = (start + at for at in it["data_offsets"])
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            tensors[name] = values.view(it["shape"])
    return tensors


def captured(model, ids):
    """The model on ids that lie in the memory of `ids`, as a graph; and where its result will be."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(ids)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = model(ids)
    return graph, result


def contestants(names, model, ids, device):
    """By name, what runs the model on ids, wherever they are, and leaves embeddings on the device."""
    for name in names:
        if name == "eager":
            yield name, lambda ids: model(ids.to(device))
        elif name == "compiled":
            torch._dynamo.reset()
            compiled = torch.compile(model, mode="max-autotune", dynamic=False)
            yield name, lambda ids: compiled(ids.to(device))
        elif device == "cuda":
            own = ids.to(device)
            graph, result = captured(model, own)

            def replay(ids):
                own.copy_(ids)
                graph.replay()
                return result

            yield name, replay


def wall_ms(run, ids, rounds):
    """Milliseconds of each round, after some that warm up: ids on the host to embeddings there."""
    times = []
    for _ in range(WARM_UP + rounds):
        start = time.perf_counter()
        run(ids).cpu()
        times.append((time.perf_counter() - start) * 1e3)
    return times[WARM_UP:]


def device_ms(run, ids, rounds):
    """Milliseconds of a run by the clock of the device, where ids and embeddings stay there."""
    ids = ids.to("cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    run(ids)
    start.record()
    for _ in range(rounds):
        run(ids)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / rounds


def measure(model, arguments):
    rows = []
    for shape in arguments.shapes.split(","):
        b, s = map(int, shape.split("x"))
        ids = (1000 + torch.arange(b)[:, None] * 7919 + torch.arange(s) * 104_729) % 29_000
        for name, run in contestants(arguments.models.split(","), model, ids, arguments.device):
            times = wall_ms(run, ids, arguments.rounds)
            p25, median, p75 = statistics.quantiles(times, n=4, method="inclusive")
            on_device = device_ms(run, ids, arguments.rounds) if arguments.device == "cuda" else None
            row = {"sentences": b, "tokens": s, "model": name, "median_ms": median, "p25_ms": p25}
            rows.append(row | {"p75_ms": p75, "device_ms": on_device, "rounds": arguments.rounds})
            if not arguments.json:
                line = f"{b:>9}  {s:>6}  {name:<9} {median:>10.3f} {p25:>8.3f} {p75:>8.3f}"
                print(line + (f" {on_device:>14.3f}" if on_device else ""), flush=True)
    if arguments.json:
        print(json.dumps(rows))


def agree(model, path, device):
    """The largest difference from embeddings in a file such as tests/reference.json."""
    rows = json.loads(path.read_text())
    longest = max(len(it["ids"]) for it in rows)
    ids = torch.tensor([it["ids"] + [0] * (longest - len(it["ids"])) for it in rows])
    lengths = torch.tensor([len(it["ids"]) for it in rows])
    mask = (torch.arange(longest) < lengths[:, None]).float()
    want = torch.tensor([it["embedding"] for it in rows])
    in_batch = model(ids.to(device), mask.to(device)).cpu()
    alone = torch.cat([model(torch.tensor([it["ids"]]).to(device)).cpu() for it in rows])
    print(f"alone {(alone - want).abs().max():.2e}, in a batch {(in_batch - want).abs().max():.2e}")


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--shapes", default="1x8,1x32,1x128,1x256,8x32,32x128", help="sentences x tokens")
    parser.add_argument("--models", default="eager,graph,compiled")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--weights", type=pathlib.Path, help="a folder with model.safetensors")
    parser.add_argument("--agree", type=pathlib.Path, help="compare with embeddings in this file, and measure nothing")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    tensors = read(arguments.weights / "model.safetensors") if arguments.weights else made_up()
    model = MiniLM(tensors).to(arguments.device).eval()
    if arguments.agree:
        return agree(model, arguments.agree, arguments.device)
    if not arguments.json:
        where = torch.cuda.get_device_name() if arguments.device == "cuda" else f"{torch.get_num_threads()} threads"
        print(f"PyTorch {torch.__version__}, {where}\nsentences  tokens  model      median ms      p25      p75  on the device")
    measure(model, arguments)


if __name__ == "__main__":
    main()
