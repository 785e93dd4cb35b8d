"""Single ops at the shapes of the benchmark networks: the call on our side by op name and attributes, PyTorch's beside it."""

from dataclasses import dataclass, field
from typing import Callable

import torch
import torch.nn.functional as F
from safetensors.torch import save_file


@dataclass
class Operand:
    shape: list
    grad: bool = True
    high: int = 0  # integers in [0, high) instead of floats
    scale: float = 1.0  # floats lie in [-scale, scale)


@dataclass
class Case:
    name: str
    op: str
    operands: list
    torch: Callable
    attrs: dict = field(default_factory=dict)
    tolerance: float = 1e-3
    images: bool = False  # whether channels_last memory makes sense
    forward: str = ""  # the op on our side where no gradient is wanted, when it is another

    @property
    def grads(self):
        return [operand.grad and not operand.high for operand in self.operands]

    def write(self, file):
        """The operands, the same for everyone who asks."""
        generator = torch.Generator().manual_seed(7)
        tensors = {}
        for i, operand in enumerate(self.operands):
            if operand.high:
                tensors[f"in{i}"] = torch.randint(operand.high, operand.shape, generator=generator)
            else:
                tensors[f"in{i}"] = (torch.rand(operand.shape, generator=generator) * 2 - 1) * operand.scale
        save_file(tensors, file)


def of(*shapes):
    return [shape if isinstance(shape, Operand) else Operand(list(shape)) for shape in shapes]


def conv(net, n, c, size, out, kernel, stride=1, padding=0, groups=1):
    pair = f"[{stride}, {stride}]"
    return Case(f"{net} conv {c}→{out} {kernel}×{kernel}/{stride} {size}²", "conv2d",
                of([n, c, size, size], [out, c // groups, kernel, kernel]),
                lambda x, w: F.conv2d(x, w, None, stride, padding, 1, groups),
                {"stride": pair, "padding": f"[{padding}, {padding}]", "groups": str(groups)}, images=True)


def max_pool(net, n, c, size, kernel, stride, padding=0):
    return Case(f"{net} max pool {kernel}/{stride} {c}×{size}²", "max_pool2d", of([n, c, size, size]),
                lambda x: F.max_pool2d(x, kernel, stride, padding),
                {"kernel": f"[{kernel}, {kernel}]", "stride": f"[{stride}, {stride}]",
                 "padding": f"[{padding}, {padding}]"}, images=True, forward="max_pool2d_values")


def linear(net, rows, inner, out):
    return Case(f"{net} linear {rows}×{inner}→{out}", "linear", of([rows, inner], [out, inner], [out]), F.linear)


def batch_norm(net, n, c, size):
    return Case(f"{net} batch norm {c}×{size}²", "batch_norm_train", of([n, c, size, size], [c], [c]),
                lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5), images=True)


def recurrent(kind, n, gates):
    """One layer of 100 steps through PyTorch's own fused function."""
    states = 2 if kind == "lstm" else 1

    def torch_layer(x, w_ih, w_hh, b_ih, b_hh, *initial):
        given = initial if states == 2 else initial[0]
        return getattr(torch, kind)(x, given, [w_ih, w_hh, b_ih, b_hh], True, 1, 0.0, True, False, False)[0]

    def parameter(*shape):  # as PyTorch initialises them: larger weights over 100 steps are chaotic
        return Operand([gates * 128, *shape], scale=128 ** -0.5)

    return Case(f"{kind} layer 100×{n}×128", kind,
                of([100, n, 128], parameter(128), parameter(128), parameter(), parameter(),
                   *[[1, n, 128]] * states), torch_layer)


CASES = [
    conv("lenet", 64, 1, 28, 20, 5),
    conv("lenet", 64, 20, 12, 50, 5),
    max_pool("lenet", 64, 20, 24, 2, 2),
    conv("alexnet", 64, 3, 224, 96, 11, 4, 2),
    conv("alexnet", 64, 96, 27, 256, 5, 1, 2),
    conv("alexnet", 64, 256, 13, 384, 3, 1, 1),
    max_pool("alexnet", 64, 96, 55, 3, 2),
    Case("alexnet response norm 96×55²", "local_response_norm", of([64, 96, 55, 55]),
         lambda x: F.local_response_norm(x, 5, 5e-4, 0.75, 2), {"size": "5", "alpha": "5e-4", "k": "2"}),
    linear("alexnet", 64, 9216, 4096),
    conv("resnet", 16, 3, 224, 64, 7, 2, 3),
    max_pool("resnet", 16, 64, 112, 3, 2, 1),
    conv("resnet", 16, 64, 56, 64, 3, 1, 1),
    conv("resnet", 16, 64, 56, 128, 3, 2, 1),
    conv("resnet", 16, 128, 28, 128, 3, 1, 1),
    conv("resnet", 16, 256, 14, 256, 3, 1, 1),
    conv("resnet", 16, 512, 7, 512, 3, 1, 1),
    conv("resnet", 16, 64, 56, 128, 1, 2),
    conv("resnet", 16, 64, 56, 256, 1),
    conv("resnet", 16, 256, 56, 64, 1),
    conv("resnet", 16, 512, 7, 2048, 1),
    conv("mobilenet", 16, 144, 56, 144, 3, 1, 1, 144),
    Case("resnet global average 512×7²", "global_avg_pool", of([16, 512, 7, 7]),
         lambda x: F.adaptive_avg_pool2d(x, 1), images=True),
    batch_norm("resnet", 16, 64, 112),
    batch_norm("resnet", 16, 256, 14),
    linear("mlp", 64, 784, 512),
    linear("gpt", 2048, 384, 1152),
    linear("gpt", 2048, 1536, 384),
    Case("gpt layer norm 2048×384", "layer_norm", of([2048, 384], [384], [384]),
         lambda x, w, b: F.layer_norm(x, [384], w, b)),
    Case("gpt gelu 2048×1536", "gelu", of([2048, 1536]), F.gelu),
    Case("gpt attention 8×6×256×64 causal", "scaled_dot_product_attention", of(*[[8, 6, 256, 64]] * 3),
         lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), {"causal": "true"}),
    Case("gpt cross entropy 2048×65", "cross_entropy_sum", of([2048, 65], Operand([2048], high=65)),
         lambda x, y: F.cross_entropy(x, y, reduction="sum")),
    Case("gpt softmax 12288×256", "softmax", of([12288, 256]), lambda x: F.softmax(x, -1)),
    Case("lstm embedding 10000×128, 1600 rows", "embedding",
         of(Operand([100, 16], high=10000), [10000, 128]), F.embedding),
    recurrent("lstm", 16, 4),
    recurrent("lstm", 64, 4),
    recurrent("gru", 16, 3),
    recurrent("gru", 64, 3),
]
