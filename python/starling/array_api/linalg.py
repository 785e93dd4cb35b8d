"""Linear algebra of the standard: products, and its extension for matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import _starling as ops
from .._starling import Tensor
from . import _statistics
from ._creation import eye, zeros
from ._dtypes import finfo, int64, is_float, uint64
from ._elementwise import _pair
from ._manipulation import _axes, broadcast_shapes, moveaxis
from ._statistics import _out, _reduced


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Matrix product of the last two axes, over the others together; a row or column of one axis. Of integers exact."""
    a, b = _pair(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("[matmul] expected arrays with dimensions, got a scalar")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(f"[matmul] expected as many columns as the second has rows, got {a.shape} and {b.shape}")
    if is_float(a.dtype):
        return ops.matmul(a, b)
    return _whole_product(a, b)


def _whole_product(a: Tensor, b: Tensor) -> Tensor:
    """The product of integers, exact: sums of products in 64 bits, which wrap as the dtype's own would."""
    dtype = a.dtype
    left, right = ops.cast(a, int64), ops.cast(b, int64)
    left = left[None, :] if a.ndim == 1 else left
    right = right[:, None] if b.ndim == 1 else right
    terms = ops.mul(left[..., :, :, None], right[..., None, :, :])
    made = ops.cast(ops.sum(terms, -2), dtype)
    made = made[..., 0, :] if a.ndim == 1 else made
    return made[..., 0] if b.ndim == 1 else made


def matrix_transpose(x: Tensor, /) -> Tensor:
    """x with its last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError(f"[matrix_transpose] expected matrices, got {x.ndim} dimensions")
    return ops.matrix_transpose(x)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sum of products along an axis, over the others together."""
    a, b = _pair(x1, x2)
    if not -min(a.ndim, b.ndim) <= axis < 0:
        raise IndexError(f"[vecdot] expected a negative axis that both arrays have, got {axis}")
    products = ops.mul(a, b)
    inner = ops.cast(products, int64) if products.dtype == uint64 else products
    return _out(ops.sum(inner, axis), products.dtype)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sum of products over some axes of both: the last so many of x1 and first of x2, or those that are named."""
    a, b = _pair(x1, x2)
    if isinstance(axes, int):
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        left, right = _axes(axes[0], a.ndim), _axes(axes[1], b.ndim)
    rest_a = [axis for axis in range(a.ndim) if axis not in left]
    rest_b = [axis for axis in range(b.ndim) if axis not in right]
    count = math.prod(a.shape[axis] for axis in left)
    shape = tuple(a.shape[axis] for axis in rest_a) + tuple(b.shape[axis] for axis in rest_b)
    rows, columns = math.prod(a.shape[i] for i in rest_a), math.prod(b.shape[i] for i in rest_b)
    first = ops.reshape(ops.permute(a, (*rest_a, *left)) if a.ndim else a, (rows, count))
    second = ops.reshape(ops.permute(b, (*right, *rest_b)) if b.ndim else b, (count, columns))
    return ops.reshape(matmul(first, second), shape)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """Products of each element of one vector with each of the other."""
    a, b = _pair(x1, x2)
    return ops.mul(a[:, None], b[None, :])


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Vector product of vectors of three elements along an axis."""
    a, b = _pair(x1, x2)
    shape = broadcast_shapes(a.shape, b.shape)
    a, b = (moveaxis(ops.broadcast_to(x, shape), axis, -1) for x in (a, b))
    if a.shape[-1] != 3:
        raise ValueError(f"[cross] expected vectors of 3 elements, got {a.shape[-1]}")
    parts = [
        ops.sub(ops.mul(a[..., i], b[..., j]), ops.mul(a[..., j], b[..., i])) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return moveaxis(ops.stack(parts, -1), -1, axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Elements on a diagonal of matrices; offset > 0: above the main one."""
    rows, columns = x.shape[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    steps = ops.arange(0, count)
    flat = ops.reshape(x, (*x.shape[:-2], rows * columns))
    first = max(-offset, 0) * columns + max(offset, 0)
    return ops.index_select(flat, ops.add(ops.mul(steps, columns + 1), first), -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sum of a diagonal of matrices."""
    return _statistics.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices: lower, or upper."""
    return ops.cholesky(x, upper)


def det(x: Tensor, /) -> Tensor:
    """Determinants of square matrices."""
    return ops.determinant(x)


def inv(x: Tensor, /) -> Tensor:
    """Inverses of square matrices."""
    return ops.inverse(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """X of x1 · X = x2; a vector x2 is one column."""
    a, b = _pair(x1, x2)
    if b.ndim == 1:
        return solve(a, b[:, None])[..., 0]
    rest = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return ops.solve(ops.broadcast_to(a, rest + a.shape[-2:]), ops.broadcast_to(b, rest + b.shape[-2:]))


class SlogdetResult(NamedTuple):
    """What slogdet() gives."""

    sign: Tensor
    logabsdet: Tensor


class EighResult(NamedTuple):
    """What eigh() gives."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """What qr() gives."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """What svd() gives."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def slogdet(x: Tensor, /) -> SlogdetResult:
    """Signs of determinants and logarithms of their sizes."""
    return SlogdetResult(*ops.slogdet(x))


def eigh(x: Tensor, /) -> EighResult:
    """Eigenvalues of symmetric matrices, ascending, and eigenvectors as columns."""
    return EighResult(*ops.eigh(x))


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of symmetric matrices, ascending."""
    return eigh(x).eigenvalues


def _completed(x: Tensor) -> Tensor:
    """An orthogonal matrix whose first columns span those of x."""
    rows = x.shape[-2]
    unit = ops.broadcast_to(eye(rows, dtype=x.dtype), (*x.shape[:-2], rows, rows))
    made: Tensor = ops.qr(ops.concat([x, unit], -1))[0]
    return made


def qr(x: Tensor, /, *, mode: str = "reduced") -> QRResult:
    """An orthogonal and an upper triangular factor; mode 'complete': the first one square."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"[qr] expected 'reduced' or 'complete' as mode, got {mode!r}")
    if mode == "reduced" or x.shape[-2] <= x.shape[-1]:
        return QRResult(*ops.qr(x))
    q = _completed(x)
    return QRResult(q, ops.triu(ops.matmul(ops.matrix_transpose(q), x)))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> SVDResult:
    """x = U · diag(S) · Vh with S descending; full_matrices: U and Vh square."""
    u, s, vh = ops.svd(x)
    if full_matrices:
        u, vh = _extended(u), ops.matrix_transpose(_extended(ops.matrix_transpose(vh)))
    return SVDResult(u, s, vh)


def _extended(columns: Tensor) -> Tensor:
    count = columns.shape[-1]
    if count == columns.shape[-2]:
        return columns
    return ops.concat([columns, _completed(columns)[..., count:]], -1)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    values: Tensor = ops.svd(x)[1]
    return values


def _cutoff(values: Tensor, shape: tuple[int, ...], rtol: Any) -> Tensor:
    if rtol is None:
        rtol = max(shape[-2:]) * finfo(values.dtype).eps
    share = rtol if isinstance(rtol, Tensor) else ops.full((), rtol, values.dtype)
    return ops.mul(ops.max(values, -1, True), share[..., None] if share.ndim else share)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above rtol times the largest."""
    if 0 in x.shape[-2:]:
        return zeros(x.shape[:-2], dtype=int64)
    values = svdvals(x)
    return ops.sum(ops.cast(ops.greater(values, _cutoff(values, x.shape, rtol)), int64), -1)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse: singular values up to rtol times the largest count as zeros."""
    u, s, vh = ops.svd(x)
    kept = ops.greater(s, _cutoff(s, x.shape, rtol))
    one = ops.full((), 1, s.dtype)
    inverse = ops.where(kept, ops.div(one, ops.where(kept, s, one)), ops.full((), 0, s.dtype))
    scaled = ops.mul(ops.matrix_transpose(vh), inverse[..., None, :])
    return ops.matmul(scaled, ops.matrix_transpose(u))


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix times itself, n times; a negative n: of its inverse."""
    if n < 0:
        return matrix_power(inv(x), -n)
    result = ops.broadcast_to(eye(x.shape[-1], dtype=x.dtype), x.shape)
    square = x
    while n:
        if n & 1:
            result = matmul(result, square)
        n >>= 1
        square = matmul(square, square) if n else square
    return result


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """Norm over some axes or all: (Σ |x|^ord)^(1/ord), the largest or smallest for ±inf, a count for 0."""
    size = ops.abs(x)
    if ord == math.inf:
        return _reduced(ops.max, size, axis, keepdims)
    if ord == -math.inf:
        return _reduced(ops.min, size, axis, keepdims)
    if ord == 0:
        there = ops.cast(ops.not_equal(size, ops.zeros((), x.dtype)), x.dtype)
        return _reduced(ops.sum, there, axis, keepdims)
    if ord == 1:
        return _reduced(ops.sum, size, axis, keepdims)
    # Scaled by the largest, so that no power leaves the dtype's range.
    if x.size == 0:
        return _reduced(ops.sum, size, axis, keepdims)
    scale = _reduced(ops.max, size, axis, True)
    safe = ops.where(ops.logical_and(ops.greater(scale, ops.zeros((), x.dtype)), ops.isfinite(scale)), scale, ops.full((), 1, x.dtype))
    powers = ops.pow(ops.div(size, safe), ops.full((), float(ord), x.dtype))
    norm = ops.pow(_reduced(ops.sum, powers, axis, True), ops.full((), 1 / ord, x.dtype))
    made = ops.mul(norm, safe)
    return made if keepdims else ops.reshape(made, _reduced(ops.sum, size, axis, False).shape)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """Norm of matrices: 'fro', 'nuc', 1, 2 or inf, and with minus the smallest in place of the largest."""
    made = _matrix_norm(x, ord)
    return made[..., None, None] if keepdims else made


def _matrix_norm(x: Tensor, ord: Any) -> Tensor:
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1))
    if ord == "nuc":
        return ops.sum(svdvals(x), -1)
    if ord in (2, -2):
        return (ops.max if ord > 0 else ops.min)(svdvals(x), -1)
    if ord in (1, -1, math.inf, -math.inf):
        sums = ops.sum(ops.abs(x), -2 if abs(ord) == 1 else -1)
        return (ops.max if ord > 0 else ops.min)(sums, -1)
    raise ValueError(f"[matrix_norm] expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf as ord, got {ord!r}")

