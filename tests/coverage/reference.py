"""Writes what PyTorch gives for the operators of src/ at small extents, in double precision, to
references.json: some elements of each result, in order of their place.

    python tests/coverage/reference.py
"""

import json

import torch

from operators import KINDS, OPERATORS
from signatures import HERE, operators

MOST = 48


def main():
    lines = []
    for it in operators():
        extents = it.small()
        results = OPERATORS[it.name](*it.inputs(extents, doubles=True))
        results = results if isinstance(results, tuple) else (results,)
        outputs = []
        for result in results:
            flat = result.to(torch.float64).flatten()
            step = max(1, flat.numel() // MOST)
            shown = [float(f"{value:.9g}") for value in flat[::step].tolist()]
            outputs.append({"shape": list(result.shape), "step": step, "values": shown})
        line = {"family": it.family, "name": it.name, "extents": extents}
        line |= {"kinds": KINDS.get(it.name, {}), "results": outputs}
        lines.append(json.dumps(line))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    (HERE / "references.json").write_text(text)
    print(f"{len(lines)} operators of {len({it.family for it in operators()})} families")


main()
