"""Reads the signatures of the operators in src/, and makes inputs for them."""

import pathlib
import re

import torch

from operators import EXTENTS, KINDS

HERE = pathlib.Path(__file__).parent
TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}


def parts(text):
    """Splits a list at the commas that stand in no brackets."""
    found, depth, start = [], 0, 0
    for at, it in enumerate(text):
        depth += (it in "<{([") - (it in ">})]")
        if it == "," and depth == 0:
            found.append(text[start:at])
            start = at + 1
    return [it.strip() for it in found + [text[start:]] if it.strip()]


class Operator:
    """An operator: its name, its family, its extents, and its parameters, each a name and a type."""

    def __init__(self, family, text):
        self.family = family
        self.name = re.search(r"pub fn (\w+)", text)[1]
        dims = re.search(r"dims\((.*?)\)\)\]", text, re.S)[1]
        self.dims = {k: int(v) for k, v in (it.split(" = ") for it in parts(dims))}
        params = re.search(r"pub fn \w+\((.*?)\)\s*->", text, re.S)[1]
        self.params = [tuple(it.split(": ", 1)) for it in parts(params)]

    def small(self):
        """Extents that an interpreter is done with soon, and that tell most axes from each other."""
        steps = {8: [8, 16, 24, 32], 4: [12, 20, 28], 2: [10, 14, 22], 1: [7, 11, 13, 9]}
        taken, extents = {}, {}
        for name, extent in self.dims.items():
            if extent <= 8:
                extents[name] = extent
                continue
            if extent not in taken:
                step = next(it for it in steps if extent % it == 0)
                n = sum(1 for it in taken if next(s for s in steps if it % s == 0) == step)
                taken[extent] = steps[step][min(n, len(steps[step]) - 1)]
            extents[name] = taken[extent]
        # Shifts of 37, slices of 64 and distances above 31 want longer rows, and groups of 16 channels more of
        # these.
        longer = {"roll": {"N": 40}, "slice_last": {"N": 40}, "transposed_groups": {"C": 32}}
        longer |= {"distance_bias": {"T": 40}}
        return extents | longer.get(self.name, {})

    def inputs(self, extents, doubles):
        """Parameters that a formula gives, so that others can make the same."""
        made = []
        for at, (name, of) in enumerate(self.params):
            tensor = re.fullmatch(r"(?:Tensor|Weight)<(.*)>", of.replace("\n", " "), re.S)
            if not tensor:
                made.append(0.5)
                continue
            dtype, *shape = parts(tensor[1])
            shape = [int(eval(it.strip("{} ").replace("/", "//"), {}, extents)) for it in shape]
            kind = KINDS.get(self.name, {}).get(name, "")
            made.append(values(dtype, shape, at, kind, extents, doubles))
        return made + [extents[it] for it in EXTENTS.get(self.name, [])]


def values(dtype, shape, at, kind, extents, doubles):
    n = torch.arange(torch.Size(shape).numel(), dtype=torch.int64).reshape(shape)
    number = (n * 37 + 11 * (at + 1)) % 101 - 50
    if kind in extents:
        return ((n * 37 + 11) % extents[kind]).to(TYPES[dtype])
    if "/" in kind:
        terms, rows = (extents[it] for it in kind.split(" / "))
        return (n * terms // rows).to(TYPES[dtype])
    if dtype == "bool":
        return number % 3 == 0
    if not dtype.startswith("f"):
        return number.to(TYPES[dtype])
    made = number.to(torch.float64) / 32
    if kind == "positive":
        made = made.abs() + 0.25
    if kind == "near_one":
        made = 1 + made / 64
    return made if doubles else made.to(TYPES[dtype])


def operators():
    """All operators, in the order of their files."""
    found = []
    for path in sorted((HERE / "src").glob("*.rs")):
        texts = re.split(r"(?=#\[autotune\()", path.read_text())[1:]
        found += [Operator(path.stem, it) for it in texts]
    return found
