"""Halide with the autoscheduler of Adams et al. (2019), compiled in this process.

The first schedule of a workload is the one that beam search and the cost model choose, with nothing
measured. Then come random ones, each from a greedy search that drops half of its choices; all are
measured and the fastest is kept, as in that paper's autotuning but for training the model.
Weights are arguments of a run like all other inputs. `f32` only; Halide's first dimension is the
innermost, so shapes are read backwards here.
"""

import math
import time
from pathlib import Path

import halide as hl
from workloads import AddRelu, Average, BiasGelu, Convolution, LayerNorm, Product, Products, Softmax

(PLUGIN,) = Path(hl.__file__).parent.glob("lib*/libautoschedule_adams2019.*")
hl.load_plugin(str(PLUGIN))

X, Y, Z = hl.Var("x"), hl.Var("y"), hl.Var("z")


def total(name, at, terms):
    """A sum over a domain: a function that begins at zero, then adds each term."""
    made = hl.Func(name)
    made[at] = hl.f32(0)
    made[at] += terms
    return made


def product(given, sizes):
    """The product of two matrices."""
    k = hl.RDom([(0, sizes.k)])
    return total("product", [X, Y], given[0][k, Y] * given[1][X, k])


def products(given, sizes):
    """Products of pairs of matrices."""
    a, b = given
    k = hl.RDom([(0, sizes.k)])
    second = b[k, X, Z] if sizes.transposed else b[X, k, Z]
    return total("products", [X, Y, Z], a[k, Y, Z] * second)


def convolution(given, sizes):
    """A convolution of one image, which has no dimension for the number of images here."""
    image, weights = given
    size, kernel, stride, padding = sizes.size, sizes.kernel, sizes.stride, sizes.padding
    if padding:
        image = hl.BoundaryConditions.constant_exterior(image, hl.f32(0), [(0, size), (0, size)])
    depth = sizes.channels // sizes.groups
    k = hl.RDom([(0, kernel), (0, kernel), (0, depth)])
    channel = k[2] if sizes.groups == 1 else Z
    pixel = image[X * stride + k[0] - padding, Y * stride + k[1] - padding, channel]
    return total("convolution", [X, Y, Z], pixel * weights[k[0], k[1], k[2], Z])


def error_function(x):
    """Abramowitz and Stegun 7.1.26, within 2e-7: Halide's own calls a library for each element."""
    t = 1 / (1 + hl.f32(0.3275911) * hl.abs(x))
    tail = hl.f32(0)
    for factor in [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592]:
        tail = (tail + hl.f32(factor)) * t
    magnitude = 1 - tail * hl.exp(-x * x)
    return hl.select(x < 0, -magnitude, magnitude)


def gelu(given, sizes):
    """A product with a bias, then GELU."""
    made = product(given, sizes)
    biased, result = hl.Func("biased"), hl.Func("gelu")
    biased[X, Y] = made[X, Y] + given[2][X]
    x = biased[X, Y]
    result[X, Y] = x * hl.f32(0.5) * (1 + error_function(x * hl.f32(math.sqrt(0.5))))
    return result


def layer_norm(given, sizes):
    """The mean of each row, then the mean of squared distances to it, then all elements."""
    x, gamma, beta = given
    k = hl.RDom([(0, sizes.columns)])
    mean, inverse, result = hl.Func("mean"), hl.Func("inverse"), hl.Func("normed")
    mean[Y] = total("sums", [Y], x[k, Y])[Y] / sizes.columns
    away = x[k, Y] - mean[Y]
    squares = total("squares", [Y], away * away)
    inverse[Y] = 1 / hl.sqrt(squares[Y] / sizes.columns + hl.f32(sizes.epsilon))
    result[X, Y] = (x[X, Y] - mean[Y]) * inverse[Y] * gamma[X] + beta[X]
    return result


def softmax(given, sizes):
    """The greatest of each row, exponentials, their sums, quotients."""
    (x,) = given
    k = hl.RDom([(0, sizes.columns)])
    peak, powers, result = hl.Func("peak"), hl.Func("powers"), hl.Func("softmax")
    peak[Y] = hl.Float(32).min()
    peak[Y] = hl.max(peak[Y], x[k, Y])
    powers[X, Y] = hl.exp(x[X, Y] - peak[Y])
    sums = total("sums", [Y], powers[k, Y])
    result[X, Y] = powers[X, Y] / sums[Y]
    return result


def add_relu(given, _):
    """The positive part of a sum."""
    result = hl.Func("result")
    result[X, Y, Z] = hl.max(given[0][X, Y, Z] + given[1][X, Y, Z], 0)
    return result


def average(given, sizes):
    """The mean of each channel."""
    k = hl.RDom([(0, sizes.size), (0, sizes.size)])
    sums, result = total("sums", [Z], given[0][k[0], k[1], Z]), hl.Func("average")
    result[Z] = sums[Z] / (sizes.size * sizes.size)
    return result


FUNCTIONS = {
    BiasGelu: gelu,
    Product: product,
    Products: products,
    Convolution: convolution,
    LayerNorm: layer_norm,
    Softmax: softmax,
    AddRelu: add_relu,
    Average: average,
}


def views(workload, result):
    """Inputs, weights and result without dimensions that are always 1; they share their memory."""
    inputs = workload.inputs
    if isinstance(workload.operation, (Convolution, Average)):
        inputs, result = [it[0] for it in inputs], result[0]
    if isinstance(workload.operation, Average):
        result = result[:, 0, 0]
    return [*inputs, *workload.weights, result]


def program(operation, arrays):
    """The function of the result, and the parameters that it reads, with all sizes known."""
    given = []
    for at, it in enumerate(arrays[:-1]):
        given.append(hl.ImageParam(hl.Float(32), it.ndim, f"x{at}"))
        for dimension, extent in enumerate(reversed(it.shape)):
            given[-1].dim(dimension).set_bounds(0, extent)
            given[-1].dim(dimension).set_estimate(0, extent)
    made = FUNCTIONS[type(operation)](given, operation)
    if made.has_update_definition():
        # A sum that is the result itself can't be computed tile by tile.
        sums, made, at = made, hl.Func("result"), [X, Y, Z][: arrays[-1].ndim]
        made[at] = sums[at]
    made.set_estimates([(0, extent) for extent in reversed(arrays[-1].shape)])
    return made, given


class Adams2019:
    """The peer: one schedule by the model alone, then random ones as the settings allow."""

    def __init__(self, samples, seconds):
        self.samples, self.seconds = samples, seconds
        self.notes = {}

    def compiled(self, operation, arrays, threads, seed):
        """One schedule, compiled; the seed 0 is for the one by the model alone."""
        settings = {"parallelism": str(threads), "beam_size": "32"}
        if seed:
            settings |= {"beam_size": "1", "random_dropout": "50", "random_dropout_seed": str(seed)}
        made, given = program(operation, arrays)
        pipeline, target = hl.Pipeline(made), hl.get_jit_target_from_environment()
        pipeline.apply_autoscheduler(target, hl.AutoschedulerParams("Adams2019", settings))
        return pipeline.compile_to_callable(given, target)

    def __call__(self, workload, threads):
        """The fastest schedule of those that were tried; its run goes from array to array."""
        result = workload.room()
        arrays = views(workload, result)
        buffers = [hl.Buffer(it) for it in arrays]
        best, least, failure = None, math.inf, None
        start, tried = time.monotonic(), []
        for seed in range(1 + self.samples):
            if seed and time.monotonic() - start > self.seconds:
                break
            try:
                candidate = self.compiled(workload.operation, arrays, threads, seed)
                us = least_seconds(lambda: candidate(*buffers)) * 1e6
            except hl.HalideError as error:
                failure, us = error, math.inf
            if us < least:
                best, least = candidate, us
            tried.append(
                {"trials": seed + 1, "seconds": time.monotonic() - start, "best_us": least if best else None}
            )
        if best is None:
            raise failure
        self.notes[workload.name] = {"best_us": least, "curve": tried}

        def run():
            best(*buffers)
            return result

        return run


def least_seconds(run, times=5):
    """The least of a few runs, after one that touches everything."""
    run()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)
