"""Shapes: other ones for the same elements, arrays put together and taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _starling as ops
from .._starling import Tensor
from ._dtypes import result_type

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape",
    "roll", "squeeze", "stack", "tile", "unstack",
]  # fmt: skip


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    for one in given:
        if not -ndim <= one < ndim:
            raise IndexError(f"[axis] expected an axis within [{-ndim}, {ndim}), got {one}")
    return tuple(one % ndim for one in given)


def _mixed(arrays: Any) -> list[Tensor]:
    dtype = result_type(*arrays)
    return [x if x.dtype == dtype else ops.cast(x, dtype) for x in arrays]


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """x repeated along axes of size 1, and along new first ones, to a shape."""
    return ops.broadcast_to(x, tuple(shape))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    ndim = max((len(shape) for shape in shapes), default=0)
    result = []
    for sizes in zip(*((1,) * (ndim - len(shape)) + tuple(shape) for shape in shapes)):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            raise ValueError(f"[broadcast] expected shapes that fit each other, got {shapes}")
        result.append(others.pop() if others else 1)
    return tuple(result)


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays in the one shape that they have together."""
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [ops.broadcast_to(x, shape) for x in arrays]


def concat(arrays: Any, /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after another along an axis; axis=None: their elements in one row."""
    mixed = _mixed(arrays)
    if axis is None:
        mixed, axis = [ops.reshape(x, (-1,)) if x.size else ops.zeros((0,), x.dtype) for x in mixed], 0
    return ops.concat(mixed, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return ops.stack(_mixed(arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of x along an axis, which they lose."""
    (at,) = _axes(axis, x.ndim)
    return tuple(x[(slice(None),) * at + (i,)] for i in range(x.shape[at]))


def expand_dims(x: Tensor, /, axis: Any = 0) -> Tensor:
    """x with new axes of size 1 at these places of the result."""
    count = 1 if isinstance(axis, int) else len(axis)
    return ops.unsqueeze(x, _axes(axis, x.ndim + count))


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """x without these axes, which must be of size 1."""
    axes = _axes(axis, x.ndim)
    if any(x.shape[one] != 1 for one in axes):
        raise ValueError(f"[squeeze] expected axes of size 1, got {axis} of {x.shape}")
    return ops.squeeze(x, axes) if axes else x


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """x with the order of elements turned around along some axes, or all."""
    axes = tuple(range(x.ndim)) if axis is None else _axes(axis, x.ndim)
    return ops.flip(x, axes) if axes else x


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """x with its axes in another order."""
    return ops.permute(x, _axes(axes, x.ndim)) if x.ndim else x


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """x with some axes at other places and the rest in their order."""
    from_, to = _axes(source, x.ndim), _axes(destination, x.ndim)
    if len(from_) != len(to):
        raise ValueError("[moveaxis] expected as many destinations as sources")
    order = [axis for axis in range(x.ndim) if axis not in from_]
    for place, axis in sorted(zip(to, from_)):
        order.insert(place, axis)
    return permute_dims(x, tuple(order))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The same elements in another shape; one size may be -1. copy=True: memory of its own."""
    made = ops.reshape(x, tuple(shape))
    return made.copy() if copy and not made.traced else made


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """x shifted along axes; what leaves at the end comes in at the beginning. axis=None: as one row."""
    if x.size == 0:
        return x
    if axis is None:
        return ops.reshape(_rolled(ops.reshape(x, (-1,)), (shift,) if isinstance(shift, int) else shift, (0,)), x.shape)
    axes = _axes(axis, x.ndim)
    return _rolled(x, (shift,) * len(axes) if isinstance(shift, int) else tuple(shift), axes)


def _rolled(x: Tensor, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    for shift, axis in zip(shifts, axes):
        x = ops.roll(x, (shift % x.shape[axis],), (axis,))
    return x


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """x so many times along each axis."""
    ndim = max(x.ndim, len(repetitions))
    times = (1,) * (ndim - len(repetitions)) + tuple(repetitions)
    return ops.tile(ops.reshape(x, (1,) * (ndim - x.ndim) + x.shape), times) if ndim else x


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Every element, or every part along an axis, so many times: one number, or one for each."""
    if axis is None:
        x, axis = ops.reshape(x, (x.size,)), 0
    (at,) = _axes(axis, x.ndim)
    if isinstance(repeats, Tensor):
        counts = repeats.tolist()
        counts = counts if isinstance(counts, list) else [counts]
    else:
        counts = [repeats]
    if len(counts) == 1:
        counts = counts * x.shape[at]
    if min(counts, default=0) < 0 or sum(counts) >= 1 << 48:
        raise ValueError(f"[repeat] expected counts from 0 to what memory holds, got {repeats}")
    rows = np.repeat(np.arange(x.shape[at]), counts)
    return ops.index_select(x, ops.from_numpy(rows), at)
