"""Sums and the like over axes."""

from __future__ import annotations

import builtins
import math
from typing import Any

from .. import _starling as ops
from .._starling import Tensor
from ._dtypes import SIGNED, UNSIGNED, int64, uint64
from ._dtypes import bool as boolean
from ._elementwise import ordered, unordered
from ._manipulation import _axes, concat

__all__ = ["all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var"]


def _reduced(function: Any, x: Tensor, axis: Any, keepdims: bool, **options: Any) -> Tensor:
    axes = tuple(range(x.ndim)) if axis is None else _axes(axis, x.ndim)
    if not axes:  # over no axes, every element is alone; the op takes none as all
        return ops.reshape(function(ops.reshape(x, (*x.shape, 1)), x.ndim, False, **options), x.shape)
    made: Tensor = function(x, axes, keepdims, **options)
    return made


def _summed(dtype: Any, x: Tensor) -> Any:
    """The dtype of sums and products: of integers the widest of their kind."""
    if dtype is not None:
        return dtype
    if x.dtype in SIGNED or x.dtype == boolean:
        return int64
    return uint64 if x.dtype in UNSIGNED else x.dtype


def _as_sum(x: Tensor, dtype: Any) -> tuple[Tensor, Any]:
    """x in the dtype that it is added up in, and the result's: uint64 as int64 of the same bits."""
    wanted = _summed(dtype, x)
    inner = int64 if wanted == uint64 else wanted
    return (x if x.dtype == inner else ops.cast(x, inner)), wanted


def _out(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype == dtype else ops.cast(x, dtype)


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum over some axes or all; integers without dtype in the widest of their kind."""
    inner, wanted = _as_sum(x, dtype)
    return _out(_reduced(ops.sum, inner, axis, keepdims), wanted)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product over some axes or all; integers without dtype in the widest of their kind."""
    inner, wanted = _as_sum(x, dtype)
    return _out(_reduced(ops.prod, inner, axis, keepdims), wanted)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Mean over some axes or all, of floats."""
    return _reduced(ops.mean, x, axis, keepdims)


def _extreme(function: Any, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    if x.dtype != uint64:
        return _reduced(function, x, axis, keepdims)
    return unordered(_reduced(function, ordered(x), axis, keepdims))


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Largest element over some axes or all."""
    return _extreme(ops.max, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Smallest element over some axes or all."""
    return _extreme(ops.min, x, axis, keepdims)


def var(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Mean square of the distance from the mean; correction=1 divides by one sample less."""
    apart = ops.sub(x, _reduced(ops.mean, x, axis, True))
    axes = builtins.range(x.ndim) if axis is None else _axes(axis, x.ndim)
    count = math.prod(x.shape[one] for one in axes) - correction
    total = _reduced(ops.sum, ops.mul(apart, apart), axis, keepdims)
    return ops.div(total, ops.full((), builtins.max(count, 0.0), x.dtype))


def std(x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Square root of var()."""
    return ops.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether every element is other than zero, over some axes or all."""
    return _reduced(ops.all, x, axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether some element is other than zero, over some axes or all."""
    return _reduced(ops.any, x, axis, keepdims)


def _cumulative(function: Any, x: Tensor, axis: Any, dtype: Any, initial: float | None) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"[cumulative] expected an axis for {x.ndim} dimensions, got none")
        axis = 0
    (at,) = _axes(axis, x.ndim)
    inner, wanted = _as_sum(x, dtype)
    made = function(inner, at) if inner.size else inner
    if initial is not None:
        shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
        made = ops.concat([ops.full(shape, initial, inner.dtype), made], at)
    return _out(made, wanted)


def cumulative_sum(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Sums of the elements up to each; include_initial: behind a zero."""
    return _cumulative(ops.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Products of the elements up to each; include_initial: behind a one."""
    return _cumulative(ops.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    (at,) = _axes(axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=at) if len(parts) > 1 else x
    before = (builtins.slice(None),) * at
    if n < 0:
        raise ValueError(f"[diff] expected a number of times, got {n}")
    for _ in builtins.range(builtins.min(n, x.shape[at])):  # from then on nothing is left
        x = ops.sub(x[before + (builtins.slice(1, None),)], x[before + (builtins.slice(None, -1),)])
    return x

