"""Writes tests/reference.json: embeddings by PyTorch in double precision, to compare with.

    pip install torch safetensors numpy
    python tests/reference.py FOLDER_WITH_MODEL_SAFETENSORS

The token ids are made up (a fixed recurrence), so that every length can be covered.
"""
import json, math, pathlib, sys
import torch
from safetensors.torch import load_file

LENGTHS = [1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 127, 128, 200, 255, 256]
HERE = pathlib.Path(__file__).parent
weights = {k: v.double() for k, v in load_file(pathlib.Path(sys.argv[1]) / "model.safetensors").items() if v.is_floating_point()}


def token_ids(length):
    ids, state = [], length
    for _ in range(length):
        state = (state * 1103515245 + 12345) % 2**31
        ids.append(1000 + state % 29000)
    return ids


def norm(x, name):
    return torch.nn.functional.layer_norm(x, (384,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)


def dense(x, name):
    return x @ weights[name + ".weight"].T + weights[name + ".bias"]


def embed(ids):
    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for n in range(6):
        layer = f"encoder.layer.{n}."
        q, k, v = (dense(x, f"{layer}attention.self.{it}").view(-1, 12, 32).transpose(0, 1) for it in ("query", "key", "value"))
        a = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(32), -1) @ v
        a = a.transpose(0, 1).reshape(-1, 384)
        x = norm(dense(a, layer + "attention.output.dense") + x, layer + "attention.output.LayerNorm")
        h = torch.nn.functional.gelu(dense(x, layer + "intermediate.dense"))
        x = norm(dense(h, layer + "output.dense") + x, layer + "output.LayerNorm")
    return torch.nn.functional.normalize(x.mean(0), dim=0)


rows = [{"ids": token_ids(n), "embedding": [round(v, 7) for v in embed(token_ids(n)).tolist()]} for n in LENGTHS]
(HERE / "reference.json").write_text("[\n" + ",\n".join(json.dumps(it, separators=(",", ":")) for it in rows) + "\n]\n")
