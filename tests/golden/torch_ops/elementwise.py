"""Elementwise ops, as PyTorch says them: op name -> f(inputs, attrs) giving the list of outputs."""
import math

import torch
import torch.nn.functional as F


def plain(f):
    return lambda x, a: [f(*x)]


def slope(f):
    """A backward op (dy, x): dy times the slope of f at x, by PyTorch's own differentiation."""

    def run(inputs, attrs):
        dy, x = inputs
        at = x.detach().clone().requires_grad_(True)
        y = f(at, attrs)
        return [torch.autograd.grad(y, at, dy.expand_as(y))[0]]

    return run


def prelu_backward(inputs, attrs):
    dy, x, weight = inputs
    return [torch.where(x > 0, dy, dy * weight)]


def clamp(x, attrs):
    """Bounds of integers are whole or missing; PyTorch would make floats of them otherwise."""
    low, high = attrs["min"], attrs["max"]
    if not x.is_floating_point():
        low, high = (None if math.isinf(b) else int(b) for b in (low, high))
        if low is None and high is None:
            return x.clone()
    return torch.clamp(x, low, high)


OPS = {
    "neg": plain(torch.neg), "abs": plain(torch.abs), "sign": plain(torch.sign), "square": plain(torch.square),
    "reciprocal": plain(torch.reciprocal), "sqrt": plain(torch.sqrt), "rsqrt": plain(torch.rsqrt),
    "exp": plain(torch.exp), "expm1": plain(torch.expm1), "log": plain(torch.log), "log1p": plain(torch.log1p),
    "log2": plain(torch.log2), "erf": plain(torch.erf),
    "sin": plain(torch.sin), "cos": plain(torch.cos), "tan": plain(torch.tan), "asin": plain(torch.asin),
    "acos": plain(torch.acos), "atan": plain(torch.atan), "sinh": plain(torch.sinh), "cosh": plain(torch.cosh),
    "tanh": plain(torch.tanh), "atan2": plain(torch.atan2),
    "floor": plain(torch.floor), "ceil": plain(torch.ceil), "round": plain(torch.round), "trunc": plain(torch.trunc),
    # activations
    "sigmoid": plain(torch.sigmoid), "relu": plain(torch.relu),
    "leaky_relu": lambda x, a: [F.leaky_relu(x[0], a["slope"])],
    "prelu": lambda x, a: [torch.where(x[0] < 0, x[0] * x[1], x[0])],
    "elu": lambda x, a: [torch.where(x[0] < 0, a["alpha"] * torch.expm1(x[0]), x[0])],
    "selu": plain(F.selu), "gelu": plain(F.gelu), "gelu_tanh": lambda x, a: [F.gelu(x[0], approximate="tanh")],
    "silu": plain(F.silu), "softplus": plain(F.softplus), "mish": plain(F.mish), "hardswish": plain(F.hardswish),
    "tanh_backward": lambda x, a: [x[0] * (1 - x[1] * x[1])],
    "sigmoid_backward": lambda x, a: [x[0] * x[1] * (1 - x[1])],
    "relu_backward": lambda x, a: [torch.where(x[1] > 0, x[0], torch.zeros_like(x[0]))],
    "leaky_relu_backward": slope(lambda x, a: F.leaky_relu(x, a["slope"])),
    "prelu_backward": prelu_backward,
    "elu_backward": slope(lambda x, a: torch.where(x < 0, a["alpha"] * torch.expm1(x), x)),
    "selu_backward": slope(lambda x, a: F.selu(x)), "gelu_backward": slope(lambda x, a: F.gelu(x)),
    "gelu_tanh_backward": slope(lambda x, a: F.gelu(x, approximate="tanh")),
    "silu_backward": slope(lambda x, a: F.silu(x)), "softplus_backward": slope(lambda x, a: F.softplus(x)),
    "mish_backward": slope(lambda x, a: F.mish(x)), "hardswish_backward": slope(lambda x, a: F.hardswish(x)),
    # two operands
    "add": plain(torch.add), "sub": plain(torch.sub), "mul": plain(torch.mul),
    "div": lambda x, a: [torch.div(*x) if x[0].is_floating_point() else torch.div(*x, rounding_mode="trunc")],
    "maximum": plain(torch.maximum), "minimum": plain(torch.minimum), "pow": plain(torch.pow),
    "floor_div": plain(torch.floor_divide), "mod": plain(torch.remainder), "fmod": plain(torch.fmod),
    "equal": plain(torch.eq), "not_equal": plain(torch.ne), "less": plain(torch.lt), "less_equal": plain(torch.le),
    "greater": plain(torch.gt), "greater_equal": plain(torch.ge),
    # truth and bits
    "logical_and": plain(torch.logical_and), "logical_or": plain(torch.logical_or),
    "logical_xor": plain(torch.logical_xor), "logical_not": plain(torch.logical_not),
    "isnan": plain(torch.isnan), "isinf": plain(torch.isinf), "isfinite": plain(torch.isfinite),
    "bitwise_and": plain(torch.bitwise_and), "bitwise_or": plain(torch.bitwise_or),
    "bitwise_xor": plain(torch.bitwise_xor), "bitwise_not": plain(torch.bitwise_not),
    "left_shift": plain(torch.bitwise_left_shift), "right_shift": plain(torch.bitwise_right_shift),
    # choices
    "where": plain(torch.where), "lerp": plain(torch.lerp),
    "clamp": lambda x, a: [clamp(x[0], a)],
    "clamp_backward": slope(clamp),
}
