"""ONNX Runtime on the CPU. Weights are initializers, which it may pack."""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from workloads import AddRelu, Average, BiasGelu, Convolution, LayerNorm, Product, Products, Softmax


def nodes(operation):
    """The operation on `x0`, `x1` and so on, which leads to `y`."""

    def node(name, *inputs, to="y", **attributes):
        return helper.make_node(name, inputs, [to], **attributes)

    match operation:
        case BiasGelu():
            return [
                node("MatMul", "x0", "x1", to="product"),
                node("Add", "product", "x2", to="sum"),
                node("Gelu", "sum"),
            ]
        case Products(transposed=True):
            return [node("Transpose", "x1", to="t", perm=[0, 2, 1]), node("MatMul", "x0", "t")]
        case Product() | Products():
            return [node("MatMul", "x0", "x1")]
        case Convolution(stride=stride, padding=padding, groups=groups):
            return [node("Conv", "x0", "x1", strides=[stride] * 2, pads=[padding] * 4, group=groups)]
        case LayerNorm(epsilon=epsilon):
            return [node("LayerNormalization", "x0", "x1", "x2", axis=-1, epsilon=epsilon)]
        case Softmax():
            return [node("Softmax", "x0")]
        case AddRelu():
            return [node("Add", "x0", "x1", to="sum"), node("Relu", "sum")]
        case Average():
            return [node("GlobalAveragePool", "x0")]


def session(workload, threads):
    """A session of its own for each workload, with its own threads."""
    names = [f"x{at}" for at in range(len(workload.inputs) + len(workload.weights))]
    of_inputs, of_weights = names[: len(workload.inputs)], names[len(workload.inputs) :]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes(workload.operation),
        "workload",
        [info(name, TensorProto.FLOAT, it.shape) for name, it in zip(of_inputs, workload.inputs)],
        [info("y", TensorProto.FLOAT, workload.operation.result)],
        [numpy_helper.from_array(it, name) for name, it in zip(of_weights, workload.weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def onnx_runtime(workload, threads):
    result = workload.room()
    # Bound once: a run neither copies nor allocates.
    made = session(workload, threads)
    binding = made.io_binding()
    for at, it in enumerate(workload.inputs):
        binding.bind_cpu_input(f"x{at}", it)
    binding.bind_output("y", "cpu", 0, np.float32, result.shape, result.ctypes.data)

    def run():
        made.run_with_iobinding(binding)
        return result

    return run
