"""Ways for weights to begin, written in place: init.kaiming_uniform_(net.weight). nn.init is this module."""

from __future__ import annotations

import math
from typing import Any

from . import _starling
from ._starling import Tensor

# Deviations are kept through a layer with this activation behind it.
_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 0.75}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By what deviations are to be scaled so that they are kept behind this activation."""
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"[init] expected one of {', '.join([*_GAINS, 'leaky_relu'])}, got {nonlinearity!r}")
    return _GAINS[nonlinearity]


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ValueError(f"[init] expected a weight with inputs and outputs, got {tensor.ndim} dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _written(tensor: Tensor, values: Tensor) -> Tensor:
    tensor.assign(values)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Numbers in [a, b)."""
    return _written(tensor, _starling.uniform(tensor.shape, a, b, tensor.dtype))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal numbers."""
    return _written(tensor, _starling.normal(tensor.shape, mean, std, tensor.dtype))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _written(tensor, _starling.full(tensor.shape, val, tensor.dtype))


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return constant_(tensor, 1.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform numbers that keep deviations forward and backward alike: gain · √(6 / (inputs + outputs)) at most."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal numbers that keep deviations forward and backward alike: of deviation gain · √(2 / (inputs + outputs))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"[init] expected fan_in or fan_out as mode, got {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Uniform numbers that keep deviations through a layer with this activation, forward or, by fan_out, backward."""
    bound = math.sqrt(3) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal numbers that keep deviations through a layer with this activation, forward or, by fan_out, backward."""
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity))


def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros beside it."""
    if tensor.ndim != 2:
        raise ValueError(f"[init] expected a matrix, got {tensor.ndim} dimensions")
    return _written(tensor, _starling.eye(tensor.shape[0], tensor.shape[1], tensor.dtype))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """A matrix whose rows, or columns where there are fewer, are at right angles and of length gain; other axes count as inputs."""
    _fans(tensor)
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    tall = _starling.normal((max(rows, columns), min(rows, columns)), dtype="f64")
    q, r = _starling.qr(tall)
    q = q * _starling.diagonal(r).sign()
    made = (q if rows >= columns else q.T) * gain
    return _written(tensor, made.reshape(tensor.shape).to(tensor.dtype))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Tensor:
    """Normal numbers within [a, b], by the inverse of their distribution."""
    low, high = (0.5 * (1 + math.erf((x - mean) / (std * math.sqrt(2)))) for x in (a, b))
    uniform = _starling.uniform(tensor.shape, 2 * low - 1, 2 * high - 1, "f64")
    return _written(tensor, (_inverse_erf(uniform) * (std * math.sqrt(2)) + mean).clamp(a, b).to(tensor.dtype))


def _inverse_erf(y: Any) -> Any:
    """By Newton's method from a first guess that is right to a few percent."""
    y = y.clamp(-1 + 1e-12, 1 - 1e-12)
    log = (1 - y * y).log()
    half = 2 / (math.pi * 0.147) + log / 2
    x = y.sign() * ((half * half - log / 0.147).sqrt() - half).sqrt()
    for _ in range(3):
        x = x - (x.erf() - y) / ((-x * x).exp() * (2 / math.sqrt(math.pi)))
    return x
