"""TVM: MetaSchedule's evolution with its XGBoost model, for LLVM on this CPU.

Weights are arguments of a run like all other inputs. A workload is tuned once; its database stays in
a folder, and whoever comes later only compiles the best schedule in it.

Two parts of MetaSchedule are replaced, since with them the same trials take several times as long or
say less:

- Its builder starts new processes for each round, and each of these first imports the tensor
  instructions of all targets, which takes 13 s and more; schedules of `f32` use none of them.
- Its clock takes the mean of a few runs. On a shared machine one neighbour then decides which
  candidate wins, so ours takes the least of several short samples.
"""

import json
import logging
import math
import shutil
import time
from importlib.metadata import version

import cloudpickle
import psutil  # noqa: F401 (MetaSchedule misses these two only when it searches)
import tvm
import xgboost  # noqa: F401
from tvm import te, topi
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule
from workloads import AddRelu, Average, BiasGelu, Convolution, LayerNorm, Product, Products, Softmax

# Candidates measured between two looks at the model, so that 64 trials learn from three batches.
BATCH = 16
# How long one candidate may take to build or to run.
SECONDS = 10


def cpu_of_llvm():
    """The CPU to generate code for, in LLVM's words.

    LLVM goes by model numbers, which virtual machines hide: an Intel CPU is named by what it can do.
    """
    try:
        with open("/proc/cpuinfo") as file:
            flags = next(line for line in file if line.startswith("flags")).split()
            file.seek(0)
            is_intel = "GenuineIntel" in file.read()
    except (OSError, StopIteration):
        flags, is_intel = [], False
    if is_intel and "amx_tile" in flags:
        return "sapphirerapids"
    if is_intel and "avx512_vnni" in flags:
        return "cascadelake"
    return tvm.target.codegen.llvm_get_system_cpu()


def computed(operation, given):
    """The result of the operation in terms of the tensors that it is given."""
    match operation:
        case BiasGelu():
            x = topi.add(product(given[0], given[1], operation), given[2])
            # The approximation by a fraction, since LLVM's own calls a library for each element.
            erf = topi.fast_erf(topi.multiply(x, math.sqrt(0.5)))
            half = topi.multiply(x, 0.5)
            return te.compute(x.shape, lambda *at: half(*at) + half(*at) * erf(*at), name="gelu")
        case Product():
            return product(*given, operation)
        case Products():
            a, b = given
            k = te.reduce_axis((0, operation.k), "k")
            second = (lambda h, j: b[h, j, k]) if operation.transposed else (lambda h, j: b[h, k, j])
            return te.compute(
                operation.result, lambda h, i, j: te.sum(a[h, i, k] * second(h, j), axis=k), name="products"
            )
        case Convolution(groups=1):
            return topi.nn.conv2d_nchw(*given, operation.stride, operation.padding, 1)
        case Convolution():
            return topi.nn.depthwise_conv2d_nchw(*given, operation.stride, operation.padding, 1)
        case LayerNorm():
            return topi.nn.layer_norm(*given, axis=[1], epsilon=operation.epsilon)
        case Softmax():
            return topi.nn.softmax(*given, axis=-1)
        case AddRelu():
            return topi.nn.relu(topi.add(*given))
        case Average():
            return topi.nn.global_pool(*given, "avg")


def product(a, b, sizes):
    """The product of two matrices."""
    k = te.reduce_axis((0, sizes.k), "k")
    return te.compute(sizes.result, lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")


def module(operation):
    """The operation as TVM tunes it: inputs, weights, then the result."""
    shapes = operation.inputs + operation.weights
    given = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    function = te.create_prim_func([*given, computed(operation, given)])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def build(candidate, target, _):
    """Runs in a process of TVM's: builds a candidate without the import that the builder makes."""
    from tvm.driver import build
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    return build(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(candidate), target=target)


def least(built, device, config, arguments):
    """Runs in a process of TVM's: the least of samples of half a ms, for as long as `config` says."""

    def seconds(number, repeat):
        evaluator = built.time_evaluator("main", device, number=number, repeat=repeat)
        return [float(it) for it in evaluator(*arguments[0]).results]

    once = min(seconds(1, 3))
    number = max(1, round(0.0005 / once))
    repeat = int(config.min_repeat_ms / 1000 / (number * once))
    return [min([once, *seconds(number, min(max(repeat, 3), 50))])]


# The processes of TVM know nothing of this file.
cloudpickle.register_pickle_by_value(__import__(__name__))


@derived_object
class Watched(meta_schedule.runner.PyRunner):
    """Runs candidates one by one and notes after each how far the search has come."""

    def __init__(self):
        super().__init__()
        self.start = time.monotonic()
        self.runner = meta_schedule.runner.LocalRunner(
            timeout_sec=SECONDS,
            evaluator_config=meta_schedule.runner.EvaluatorConfig(min_repeat_ms=50),
            f_run_evaluator=least,
        )
        self.n_trials, self.n_failed, self.best, self.curve = 0, 0, None, []

    def run(self, inputs):
        futures = []
        for each in inputs:
            (future,) = self.runner.run([each])
            futures.append(future)
            self.n_trials += 1
            found = future.result().run_secs
            if not found:
                self.n_failed += 1
            elif self.best is None or float(found[0]) * 1e6 < self.best:
                self.best = float(found[0]) * 1e6
            self.curve.append(
                {"trials": self.n_trials, "seconds": time.monotonic() - self.start, "best_us": self.best}
            )
        return futures


class MetaSchedule:
    """The peer. It keeps what it tuned in a folder of its own for each workload."""

    def __init__(self, work, trials):
        self.work, self.trials = work, trials
        self.notes = {}

    def target(self, threads):
        return {"kind": "llvm", "mcpu": cpu_of_llvm(), "num-cores": threads}

    def known(self, name, threads):
        """What an earlier search noted, if it would be the same as one now, with as many trials."""
        try:
            noted = json.loads((self.work / name / "tuned.json").read_text())
        except FileNotFoundError:
            return None
        same = noted["target"] == self.target(threads) and noted["asked"] >= self.trials
        return noted if same else None

    def tuned(self, workload, threads):
        """Searches, unless that was done. Returns the notes, which have the curve of the search."""
        noted = self.known(workload.name, threads)
        if noted:
            return noted
        folder = self.work / workload.name
        shutil.rmtree(folder, ignore_errors=True)
        # What a search imports at first is no part of its time.
        from tvm.s_tir import tensor_intrin  # noqa: F401

        # It sets this back at each search; the whole story is in the folder's logs.
        logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
        watched = Watched()
        meta_schedule.tune_tir(
            module(workload.operation),
            tvm.target.Target(self.target(threads)),
            str(folder),
            self.trials,
            num_trials_per_iter=BATCH,
            builder=meta_schedule.builder.LocalBuilder(
                max_workers=threads, timeout_sec=SECONDS, f_build=build
            ),
            runner=watched,
            cost_model="xgb",
            num_tuning_cores=threads,
            seed=1,
        )
        watched.runner.pool.shutdown()
        noted = {
            "name": workload.name,
            "tvm": version("apache-tvm"),
            "target": self.target(threads),
            "asked": self.trials,
            "trials": watched.n_trials,
            "failed": watched.n_failed,
            "seconds": time.monotonic() - watched.start,
            "best_us": watched.best,
            "curve": watched.curve,
        }
        (folder / "tuned.json").write_text(json.dumps(noted, indent=1) + "\n")
        return noted

    def __call__(self, workload, threads):
        """The best schedule, compiled; its run goes from array to array without a copy."""
        self.notes[workload.name] = self.tuned(workload, threads)
        target = tvm.target.Target(self.target(threads))
        database = meta_schedule.database.JSONDatabase(work_dir=str(self.work / workload.name))
        schedule = meta_schedule.tir_integration.compile_tir(database, module(workload.operation), target)
        if schedule is None:
            raise RuntimeError("TVM found no schedule that works")
        main = tvm.compile(schedule.mod, target=target)["main"]
        result = workload.room()
        arrays = [tvm.runtime.from_dlpack(it) for it in [*workload.inputs, *workload.weights, result]]

        def run():
            main(*arrays)
            return result

        return run
