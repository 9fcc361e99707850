"""The engines that times.py compares with, each a function that makes an operator ready to run.

A parameter that is a `Weight` of the operator is a constant of the module, which engines may rearrange
once as ours does; the others are passed at each call.
"""

import io
import logging
import time

import torch

from operators import OPERATORS


class Applied(torch.nn.Module):
    """An operator with its constants in it, a module of its other tensors."""

    def __init__(self, operator):
        super().__init__()
        self.function = OPERATORS[operator.name]
        self.constants, self.passed = {}, []
        inputs = operator.inputs(operator.dims, doubles=False)
        for at, ((_, of), value) in enumerate(zip(operator.params, inputs)):
            if not isinstance(value, torch.Tensor):
                self.constants[at] = value
            elif of.startswith("Weight"):
                self.register_buffer(f"weight_{at}", value)
            else:
                self.passed.append(value)
        self.arity = len(inputs)
        self.weights = [at for at in range(self.arity) if hasattr(self, f"weight_{at}")]

    def forward(self, *passed):
        rest = iter(passed)
        inputs = []
        for at in range(self.arity):
            if at in self.constants:
                inputs.append(self.constants[at])
            elif at in self.weights:
                inputs.append(getattr(self, f"weight_{at}"))
            else:
                inputs.append(next(rest))
        return self.function(*inputs)


def eager(operator, threads):
    function, inputs = OPERATORS[operator.name], operator.inputs(operator.dims, doubles=False)
    return lambda: function(*inputs)


def compiled(operator, threads):
    module = Applied(operator)
    function = torch.compile(module, dynamic=False)
    return lambda: function(*module.passed)


def onnx_file(operator):
    """The operator as an ONNX file in memory, by PyTorch's own exporter, and the tensors to pass."""
    logging.disable(logging.WARNING)
    module = Applied(operator).eval()
    file = io.BytesIO()
    program = torch.onnx.export(module, tuple(module.passed), dynamo=True, verbose=False)
    program.save(file)
    return file.getvalue(), [it.numpy() for it in module.passed]


def onnxruntime(operator, threads):
    import onnxruntime as ort

    model, passed = onnx_file(operator)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [it.name for it in session.get_inputs()]
    feed = dict(zip(names, passed, strict=True))
    return lambda: session.run(None, feed)


def openvino(operator, threads):
    """By OpenVINO's reader of PyTorch, or of ONNX where that does not have the operator."""
    import openvino as ov

    module = Applied(operator).eval()
    try:
        model = ov.convert_model(module, example_input=tuple(module.passed))
        shapes = [ov.PartialShape(list(it.shape)) for it in module.passed]
        model.reshape(dict(zip(model.inputs, shapes, strict=True)))
    except Exception:
        model = ov.Core().read_model(io.BytesIO(onnx_file(operator)[0]))
    properties = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        # Numbers of 32 bits, as the others compute with.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(model, "CPU", properties).create_infer_request()
    passed = [it.numpy() for it in module.passed]
    return lambda: request.infer(passed, share_inputs=True, share_outputs=True)


ENGINES = {
    "eager": eager,
    "compile": compiled,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def median_us(run):
    """The median latency of a run, in us: for a tenth of a second, five times at least."""
    for _ in range(3):
        start = time.perf_counter()
        run()
        once = time.perf_counter() - start
    times = []
    for _ in range(max(5, min(200, int(0.1 / max(once, 1e-6))))):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e6
