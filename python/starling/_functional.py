"""Functions of networks under the names and arguments that PyTorch gives them: nn.functional is this module."""

from __future__ import annotations

from typing import Any

from . import _starling
from ._names import mse_loss as mse_loss, l1_loss as l1_loss, nll_loss as nll_loss, smooth_l1_loss as smooth_l1_loss  # type: ignore[attr-defined] # noqa: F401
from ._names import binary_cross_entropy as binary_cross_entropy, huber_loss as huber_loss  # type: ignore[attr-defined] # noqa: F401
from ._names import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits  # type: ignore[attr-defined] # noqa: F401
from ._starling import (  # noqa: F401
    Tensor,
    cross_entropy as cross_entropy,
    elu as elu,
    embedding as embedding,
    gelu as gelu,
    hardswish as hardswish,
    kl_div as kl_div,
    leaky_relu as leaky_relu,
    linear as linear,
    log_softmax as log_softmax,
    mish as mish,
    one_hot as one_hot,
    prelu as prelu,
    relu as relu,
    scaled_dot_product_attention as scaled_dot_product_attention,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softplus as softplus,
    tanh as tanh,
)


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zeros elements at random and scales the others; x itself where training is False."""
    return _starling.dropout(input, p) if training else _starling.asarray(input)


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Normalises over the last axes, whose sizes are given."""
    axes = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    expected = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    x = _starling.asarray(input)
    if x.shape[x.ndim - axes :] != expected:
        raise ValueError(f"[layer_norm] expected last axes of sizes {expected}, got {x.shape}")
    return _starling.layer_norm(x, weight, bias, eps=eps, dims=axes)


def _conv(name: str) -> Any:
    function = getattr(_starling, name)

    def conv(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
        made: Tensor = function(input, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
        return made

    conv.__name__ = conv.__qualname__ = name
    conv.__doc__ = function.__doc__
    return conv


conv1d, conv2d, conv3d = _conv("conv1d"), _conv("conv2d"), _conv("conv3d")


def _pool(name: str) -> Any:
    function = getattr(_starling, name)

    def pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0) -> Tensor:
        made: Tensor = function(input, kernel=kernel_size, stride=kernel_size if stride is None else stride, padding=padding)
        return made

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = function.__doc__
    return pool


max_pool1d, max_pool2d, max_pool3d = _pool("max_pool1d"), _pool("max_pool2d"), _pool("max_pool3d")
avg_pool1d, avg_pool2d, avg_pool3d = _pool("avg_pool1d"), _pool("avg_pool2d"), _pool("avg_pool3d")


def _adaptive(name: str) -> Any:
    function = getattr(_starling, name)

    def pool(input: Any, output_size: Any) -> Tensor:
        made: Tensor = function(input, size=output_size)
        return made

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = function.__doc__
    return pool


adaptive_avg_pool1d, adaptive_avg_pool2d = _adaptive("adaptive_avg_pool1d"), _adaptive("adaptive_avg_pool2d")
adaptive_max_pool1d, adaptive_max_pool2d = _adaptive("adaptive_max_pool1d"), _adaptive("adaptive_max_pool2d")


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Vectors along an axis divided by their norm."""
    x = _starling.asarray(input)
    if p != 2.0:
        raise ValueError(f"[normalize] expected p=2, got {p}")
    length = x.square().sum(dim, True).sqrt()
    return x / _starling.maximum(length, eps)


def pad(input: Any, pad: Any, mode: str = "constant", value: float = 0.0) -> Tensor:
    """More elements around: pad=(before, after) of the last axis, then of the one before it, and so on. mode: constant, reflect, replicate."""
    x, sizes = _starling.asarray(input), tuple(pad)
    if len(sizes) % 2 or len(sizes) > 2 * x.ndim:
        raise ValueError(f"[pad] expected two numbers for each of at most {x.ndim} axes, got {sizes}")
    rest = (0,) * (x.ndim - len(sizes) // 2)
    before, after = rest + sizes[-2::-2], rest + sizes[::-2]
    return _starling.pad(x, before=before, after=after, mode={"replicate": "edge"}.get(mode, mode), value=value)


def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """Images [n, channels, height, width] in another size, or scaled: by the nearest pixel or mode="bilinear"."""
    if (size is None) == (scale_factor is None):
        raise ValueError("[interpolate] expected size or scale_factor, one of them")
    given: dict[str, Any]
    if size is not None:
        given = {"size": (size, size) if isinstance(size, int) else tuple(size)}
    else:
        height, width = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor, scale_factor)
        given = {"scale_h": float(height), "scale_w": float(width)}
    return _starling.interpolate(input, mode=mode, align_corners=bool(align_corners), **given)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along an axis."""
    a, b = _starling.asarray(x1), _starling.asarray(x2)
    lengths = [_starling.maximum(each.square().sum(dim).sqrt(), eps) for each in (a, b)]
    made: Tensor = (a * b).sum(dim) / (lengths[0] * lengths[1])
    return made
