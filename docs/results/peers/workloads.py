"""What the workloads of `kernels/` compute, said once for all peers.

Each kind of operation is a class with its sizes and the shapes that follow from them. What a peer
makes of it stands in that peer's file.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Convolution:
    """A square convolution of one image, channels first, padded so that stride 1 keeps its size."""

    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self):
        return self.kernel // 2

    @property
    def inputs(self):
        return [(1, self.channels, self.size, self.size)]

    @property
    def weights(self):
        return [(self.outputs, self.channels // self.groups, self.kernel, self.kernel)]

    @property
    def result(self):
        size = (self.size + 2 * self.padding - self.kernel) // self.stride + 1
        return (1, self.outputs, size, size)


@dataclass(frozen=True)
class Product:
    """The product of a matrix and a matrix of weights."""

    m: int
    n: int
    k: int

    @property
    def inputs(self):
        return [(self.m, self.k)]

    @property
    def weights(self):
        return [(self.k, self.n)]

    @property
    def result(self):
        return (self.m, self.n)


@dataclass(frozen=True)
class BiasGelu(Product):
    """A product, a bias for each column, and GELU by the error function."""

    @property
    def weights(self):
        return [(self.k, self.n), (self.n,)]


@dataclass(frozen=True)
class Products:
    """Products of pairs of matrices, both of them inputs; the second may be stored transposed."""

    batch: int
    m: int
    n: int
    k: int
    transposed: bool = False
    weights = []

    @property
    def inputs(self):
        second = (self.n, self.k) if self.transposed else (self.k, self.n)
        return [(self.batch, self.m, self.k), (self.batch, *second)]

    @property
    def result(self):
        return (self.batch, self.m, self.n)


@dataclass(frozen=True)
class Softmax:
    """The softmax of each row."""

    rows: int
    columns: int
    weights = []

    @property
    def inputs(self):
        return [(self.rows, self.columns)]

    @property
    def result(self):
        return (self.rows, self.columns)


@dataclass(frozen=True)
class LayerNorm(Softmax):
    """The layer norm of each row, with a factor and a summand for each column."""

    epsilon = 1e-5

    @property
    def weights(self):
        return [(self.columns,), (self.columns,)]


@dataclass(frozen=True)
class AddRelu:
    """The positive part of a sum, element by element."""

    channels: int
    size: int
    weights = []

    @property
    def inputs(self):
        return [self.result, self.result]

    @property
    def result(self):
        return (self.channels, self.size, self.size)


@dataclass(frozen=True)
class Average:
    """The average of each channel of an image."""

    channels: int
    size: int
    weights = []

    @property
    def inputs(self):
        return [(1, self.channels, self.size, self.size)]

    @property
    def result(self):
        return (1, self.channels, 1, 1)


OPERATIONS = {
    "matmul_512": Product(512, 512, 512),
    "matmul_1024": Product(1024, 1024, 1024),
    "bert_proj": Product(128, 768, 768),
    "bert_ffn1": Product(128, 3072, 768),
    "bert_ffn2": Product(128, 768, 3072),
    "bert_attn_qk": Products(12, 128, 128, 64, transposed=True),
    "bert_attn_av": Products(12, 128, 64, 128),
    "resnet_stem_7x7s2": Convolution(3, 224, 64, 7, stride=2),
    "resnet_3x3_64_56": Convolution(64, 56, 64, 3),
    "resnet_3x3_128_28": Convolution(128, 28, 128, 3),
    "resnet_3x3_256_14": Convolution(256, 14, 256, 3),
    "resnet_3x3_512_7": Convolution(512, 7, 512, 3),
    "resnet50_1x1_64_256_56": Convolution(64, 56, 256, 1),
    "resnet50_1x1_1024_256_14": Convolution(1024, 14, 256, 1),
    "resnet50_1x1s2_256_512_56": Convolution(256, 56, 512, 1, stride=2),
    "alexnet_5x5_64_192_27": Convolution(64, 27, 192, 5),
    "googlenet3a_3x3_96_128_28": Convolution(96, 28, 128, 3),
    "googlenet3a_5x5_16_32_28": Convolution(16, 28, 32, 5),
    "vgg16_3x3_64_64_224": Convolution(64, 224, 64, 3),
    "vgg16_3x3_512_512_28": Convolution(512, 28, 512, 3),
    "squeezenet_squeeze_96_16_54": Convolution(96, 54, 16, 1),
    "squeezenet_expand_16_64_54": Convolution(16, 54, 64, 3),
    "mobilenet_dw_32_112": Convolution(32, 112, 32, 3, groups=32),
    "mobilenet_dw_512_14": Convolution(512, 14, 512, 3, groups=512),
    "softmax_4096x1024": Softmax(4096, 1024),
    "layernorm_1024x768": LayerNorm(1024, 768),
    "matmul_bias_gelu": BiasGelu(128, 3072, 768),
    "add_relu_256x56x56": AddRelu(256, 56),
    "gap_2048x7x7": Average(2048, 7),
}


def aligned(shape):
    """Zeros that begin at a cache line: TVM asks for that, and then nobody shall have it worse."""
    n_bytes = 4 * int(np.prod(shape))
    memory = np.zeros(n_bytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + n_bytes].view(np.float32).reshape(shape)


class Workload:
    """An operation and the numbers it is given, the same ones for all peers."""

    def __init__(self, name):
        self.name = name
        self.operation = OPERATIONS[name]
        numbers = np.random.default_rng(0)
        self.inputs, self.weights = [], []
        for shapes, arrays in [(self.operation.inputs, self.inputs), (self.operation.weights, self.weights)]:
            for shape in shapes:
                arrays.append(aligned(shape))
                arrays[-1][...] = numbers.uniform(-1, 1, shape)

    def room(self):
        """An array for a peer to write the result to."""
        return aligned(self.operation.result)
