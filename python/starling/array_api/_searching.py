"""Where values are, their order, which there are, and elements by index."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _starling as ops
from .._starling import Tensor
from ._dtypes import int64, result_type, uint64
from ._elementwise import _as, less, less_equal, ordered
from ._manipulation import _axes, broadcast_shapes
from ._statistics import _reduced

__all__ = [
    "argmax", "argmin", "argsort", "count_nonzero", "nonzero", "searchsorted", "sort", "take", "take_along_axis",
    "unique_all", "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip


def _place(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    x = ordered(x) if x.dtype == uint64 else x
    if axis is None:
        index = function(ops.reshape(x, (-1,)), 0)
    else:
        index = function(x, _axes(axis, x.ndim), keepdims)
    found: Tensor = ops.reshape(index, (1,) * x.ndim) if keepdims and axis is None else index
    return found


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is, the first of equal ones; axis=None: among all."""
    return _place(ops.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is, the first of equal ones; axis=None: among all."""
    return _place(ops.argmin, x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero, over some axes or all."""
    there = ops.cast(ops.not_equal(x, ops.zeros((), x.dtype)), int64)
    return _reduced(ops.sum, there, axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not zero, an array for each axis. Eager."""
    if x.ndim == 0:
        raise ValueError("[nonzero] expected an array with dimensions, got a scalar")
    places = ops.nonzero(x)
    return tuple(places[:, i] for i in range(x.ndim))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, x2 elsewhere."""
    dtype = result_type(x1, x2)
    return ops.where(condition, _as(x1, dtype), _as(x2, dtype))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that put x into order along an axis; equal elements keep theirs."""
    (at,) = _axes(axis, x.ndim)
    return ops.argsort(x, at, descending)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """x in order along an axis."""
    (at,) = _axes(axis, x.ndim)
    values: Tensor = ops.sort(x, at, descending)[0]
    return values


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """By halving, for all of x2 at once."""
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] expected 'left' or 'right' as side, got {side!r}")
    dtype = result_type(x1, x2)
    among, wanted = _as(x1, dtype), _as(x2, dtype)
    if sorter is not None:
        among = take(among, sorter)
    before = less if side == "left" else less_equal
    low = ops.zeros(wanted.shape, int64)
    high = ops.full(wanted.shape, among.size, int64)
    for _ in range(among.size.bit_length()):
        middle = ops.floor_div(ops.add(low, high), ops.full((), 2, int64))
        found = ops.take(among, ops.minimum(middle, ops.full((), among.size - 1, int64)))
        open_ = ops.less(low, high)
        after = ops.logical_and(open_, before(found, wanted))
        low = ops.where(after, ops.add(middle, ops.full((), 1, int64)), low)
        high = ops.where(ops.logical_and(open_, ops.logical_not(after)), middle, high)
    return low


def _indices(indices: Tensor, size: int) -> Tensor:
    index = indices if indices.dtype == int64 else ops.cast(indices, int64)
    return ops.where(ops.less(index, ops.zeros((), int64)), ops.add(index, ops.full((), size, int64)), index)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Elements, or parts along an axis, by index; negative ones count from the end."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"[take] expected an axis for {x.ndim} dimensions, got none")
    (at,) = _axes(0 if axis is None else axis, x.ndim)
    flat = ops.reshape(_indices(indices, x.shape[at]), (indices.size,))
    made = ops.index_select(x, flat, at)
    return ops.reshape(made, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements along an axis by indices of their own at every place, as argsort() gives them."""
    (at,) = _axes(axis, x.ndim)
    rest = broadcast_shapes(x.shape[:at] + (1,) + x.shape[at + 1 :], indices.shape[:at] + (1,) + indices.shape[at + 1 :])
    whole = ops.broadcast_to(x, rest[:at] + (x.shape[at],) + rest[at + 1 :])
    index = ops.broadcast_to(_indices(indices, x.shape[at]), rest[:at] + (indices.shape[at],) + rest[at + 1 :])
    return ops.gather(whole, index, at)


class unique_all_result(NamedTuple):
    """What unique_all() finds."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """What unique_counts() finds."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """What unique_inverse() finds."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> unique_all_result:
    """Each value once, where it is first, which of them every element is, and how often it is there. Eager."""
    values, inverse, counts = ops.unique(ops.reshape(x, (x.size,)))
    order = ops.argsort(inverse, 0)
    first = ops.sub(ops.cumsum(counts, 0), counts) if counts.size else counts
    return unique_all_result(values, ops.index_select(order, first, 0), ops.reshape(inverse, x.shape), counts)


def unique_counts(x: Tensor, /) -> unique_counts_result:
    """Each value once, and how often it is there. Eager."""
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> unique_inverse_result:
    """Each value once, and which of them every element is. Eager."""
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Each value once. Eager."""
    return unique_all(x).values
