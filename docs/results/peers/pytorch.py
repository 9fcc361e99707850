"""PyTorch, eager and by `torch.compile` with max-autotune.

Eager takes weights as they are; frozen modules may pack them.
"""

import torch
import torch.nn.functional as F
from workloads import AddRelu, Average, BiasGelu, Convolution, LayerNorm, Product, Products, Softmax

torch.set_grad_enabled(False)
# All workloads are kept compiled, and for PyTorch they are one function.
torch._dynamo.config.recompile_limit = 1000


def function(operation):
    """The operation as a function of tensors."""
    match operation:
        case BiasGelu():
            return lambda x, w, b: F.gelu(torch.addmm(b, x, w))
        case Products(transposed=True):
            return lambda a, b: torch.matmul(a, b.mT)
        case Product() | Products():
            return torch.matmul
        case Convolution():
            return lambda x, w: F.conv2d(
                x, w, stride=operation.stride, padding=operation.padding, groups=operation.groups
            )
        case LayerNorm():
            return lambda x, gamma, beta: F.layer_norm(
                x, (operation.columns,), gamma, beta, operation.epsilon
            )
        case Softmax():
            return lambda x: torch.softmax(x, -1)
        case AddRelu():
            return lambda x, y: F.relu(x + y)
        case Average():
            return lambda x: F.adaptive_avg_pool2d(x, 1)


def eager(workload, threads):
    torch.set_num_threads(threads)
    arguments = [torch.from_numpy(it) for it in workload.inputs + workload.weights]
    of_tensors = function(workload.operation)
    return lambda: of_tensors(*arguments).numpy()


class Module(torch.nn.Module):
    """A workload whose weights are constants once it is frozen."""

    def __init__(self, workload):
        super().__init__()
        self.function = function(workload.operation)
        weights = [torch.nn.Parameter(torch.from_numpy(it)) for it in workload.weights]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *inputs):
        return self.function(*inputs, *self.weights)


def max_autotune(workload, threads):
    torch.set_num_threads(threads)
    options = {
        "freezing": True,
        "max_autotune": True,
        "max_autotune_gemm_backends": "CPP,ATEN",
    }
    # Without the last it takes the sizes of the second workload for ones that vary.
    module = torch.compile(Module(workload).eval(), options=options, dynamic=False)
    inputs = [torch.from_numpy(it) for it in workload.inputs]
    return lambda: module(*inputs).numpy()
