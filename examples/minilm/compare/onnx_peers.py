"""The model as ONNX graphs: the one that PyTorch exports, and one of ONNX Runtime's own operators."""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import torch
from bench_torch import HEADS, WIDTH
from onnx import TensorProto, helper, numpy_helper

EPSILON = 1e-12
CONTRIB = "com.microsoft"


class OnnxPeers:
    """Sessions for batches of one shape."""

    def __init__(self, model, threads):
        self.model, self.threads = model, threads
        self.folder = tempfile.TemporaryDirectory()

    def plain(self, batch):
        session = self.session(self.exported(batch))
        inputs = {it.name: tensor.numpy() for it, tensor in zip(session.get_inputs(), given(batch))}
        return lambda: session.run(None, inputs)[0]

    def fused(self, batch):
        ids, mask = batch
        session = self.session(FusedGraph(self.model).bytes())
        lengths = (torch.ones(ids.shape) if mask is None else mask).sum(1)
        inputs = {"ids": ids.int().numpy(), "segments": np.zeros(ids.shape, np.int32)}
        inputs["mask"] = np.ones(ids.shape, np.int32) if mask is None else mask.int().numpy()
        inputs["seen"] = inputs["mask"].astype(np.float32)[:, :, None]
        inputs["lengths"] = lengths[:, None].numpy()
        return lambda: session.run(None, inputs)[0]

    def openvino(self, batch):
        core = openvino.Core()
        options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": self.threads}
        options["INFERENCE_PRECISION_HINT"] = "f32"
        request = core.compile_model(str(self.exported(batch)), "CPU", options).create_infer_request()
        tensors = [it.numpy() for it in given(batch)]
        return lambda: request.infer(tensors, share_inputs=True)[0]

    def exported(self, batch):
        """The path of the graph that PyTorch exports for batches of this shape."""
        ids, mask = batch
        padded = "" if mask is None else "-padded"
        path = Path(self.folder.name) / f"{ids.shape[0]}x{ids.shape[1]}{padded}.onnx"
        if not path.exists():
            # The exporter reports its progress.
            with contextlib.redirect_stdout(io.StringIO()):
                torch.onnx.export(self.model, tuple(given(batch)), str(path), dynamo=True, verbose=False)
        return path

    def session(self, graph):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        graph = graph if isinstance(graph, bytes) else str(graph)
        return onnxruntime.InferenceSession(graph, options, ["CPUExecutionProvider"])


def given(batch):
    """The inputs of a graph: ids, and a mask where there is one."""
    return [it for it in batch if it is not None]


class FusedGraph:
    """The operators that ONNX Runtime's optimizer finds in exports of BERT, for any batch."""

    def __init__(self, model):
        self.nodes, self.constants = [], []
        self.hidden = self.embeddings(model.embeddings)
        for layer in model.layers:
            self.hidden = self.layer(*layer)
        self.pool()

    def constant(self, value):
        name = f"constant_{len(self.constants)}"
        value = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, operator, inputs, outputs=1, domain="", **attributes):
        names = [f"value_{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def embeddings(self, parameters):
        words, places, gamma, beta = parameters
        # The places have the first segment already.
        constants = [words, places, torch.zeros(1, WIDTH), gamma, beta]
        inputs = ["ids", "segments", *map(self.constant, constants)]
        return self.node("EmbedLayerNormalization", inputs, 2, CONTRIB, epsilon=EPSILON)

    def layer(self, qkv, qkv_bias, out, out_bias, gamma, beta, up, up_bias, down, down_bias, *norm):
        x = self.hidden
        inputs = [x, self.constant(qkv.T), self.constant(qkv_bias), "mask"]
        context = self.node("Attention", inputs, 1, CONTRIB, num_heads=HEADS)
        x = self.add_norm(self.product(context, out), x, gamma, beta, out_bias)
        inner = self.product(x, up)
        inner = self.node("BiasGelu", [inner, self.constant(up_bias)], 1, CONTRIB)
        return self.add_norm(self.product(inner, down), x, *norm, down_bias)

    def product(self, x, weight):
        return self.node("MatMul", [x, self.constant(weight.T)])

    def add_norm(self, x, residual, gamma, beta, bias):
        inputs = [x, residual, *map(self.constant, (gamma, beta, bias))]
        return self.node("SkipLayerNormalization", inputs, 1, CONTRIB, epsilon=EPSILON)

    def pool(self):
        seen = self.node("Mul", [self.hidden, "seen"])
        total = self.node("ReduceSum", [seen, self.constant([1])], keepdims=0)
        mean = self.node("Div", [total, "lengths"])
        self.result = self.node("LpNormalization", [mean], axis=-1, p=2)

    def bytes(self):
        def value(name, dtype, *dims):
            return helper.make_tensor_value_info(name, dtype, dims)

        inputs = [value(it, TensorProto.INT32, "b", "s") for it in ("ids", "segments", "mask")]
        inputs.append(value("seen", TensorProto.FLOAT, "b", "s", 1))
        inputs.append(value("lengths", TensorProto.FLOAT, "b", 1))
        outputs = [value(self.result, TensorProto.FLOAT, "b", WIDTH)]
        graph = helper.make_graph(self.nodes, "minilm", inputs, outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
