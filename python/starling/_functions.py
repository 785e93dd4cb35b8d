"""Functions that are made of others: names that NumPy, PyTorch and JAX have, in a line or a few."""

from __future__ import annotations

import math
from typing import Any, Callable

from . import _starling
from ._autograd import grad
from ._starling import Tensor

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None


def is_tensor(x: Any) -> bool:
    """Whether it is a Tensor."""
    return isinstance(x, Tensor)


def finfo(dtype: Any) -> Any:
    """Limits of a dtype of floats: bits, eps, max, min, smallest_normal."""
    from . import array_api

    return array_api.finfo(_starling.dtype(dtype))


def iinfo(dtype: Any) -> Any:
    """Limits of a dtype of integers: bits, max, min."""
    from . import array_api

    return array_api.iinfo(_starling.dtype(dtype))


def isclose(x: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Where |x - other| <= atol + rtol · |other|; infinities are close to themselves, and NaN to itself if equal_nan."""
    x, other = _starling.asarray(x), _starling.asarray(other)
    a, b = (each if each.dtype.is_float else each.to("f64") for each in (x, other))
    near = (a - b).abs() <= atol + rtol * b.abs()
    close = (a == b) | (near & _starling.isfinite(b))
    made: Tensor = close | (_starling.isnan(a) & _starling.isnan(b)) if equal_nan else close
    return made


def allclose(x: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether isclose() holds everywhere."""
    return bool(isclose(x, other, rtol, atol, equal_nan).all().item())


def hstack(tensors: Any) -> Tensor:
    """Side by side: vectors one after another, others along their second axis."""
    parts = [_starling.asarray(one) for one in tensors]
    parts = [one.reshape(1) if one.ndim == 0 else one for one in parts]
    return _starling.concat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Any) -> Tensor:
    """One below the other: vectors become rows."""
    parts = [_starling.asarray(one) for one in tensors]
    return _starling.concat([one.reshape(1, -1) if one.ndim < 2 else one for one in parts], 0)


def amax(x: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Tensor:
    """The largest value over all axes, or some."""
    return _starling.max(x, axes=_axes(dim, axis), keepdim=keepdim)


def amin(x: Any, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Tensor:
    """The smallest value over all axes, or some."""
    return _starling.min(x, axes=_axes(dim, axis), keepdim=keepdim)


def _axes(dim: Any, axis: Any) -> Any:
    if dim is not None and axis is not None:
        raise TypeError("[reduce] expected the axes once, got dim and axis")
    chosen = axis if dim is None else dim
    return () if chosen is None else chosen


def count_nonzero(x: Any, dim: Any = None, *, axis: Any = None) -> Tensor:
    """How many elements are not 0, over all axes or some."""
    return _starling.sum((_starling.asarray(x) != 0).to("i64"), axes=_axes(dim, axis))


def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Numbers in the place of NaN and infinities: by default 0, and the largest and smallest of the dtype."""
    given: Tensor = _starling.asarray(x)
    if not given.dtype.is_float:
        return given
    x = given
    most = finfo(x.dtype).max
    x = _starling.where(_starling.isnan(x), nan, x)
    x = _starling.where(x == inf, most if posinf is None else posinf, x)
    made: Tensor = _starling.where(x == -inf, -most if neginf is None else neginf, x)
    return made


def log10(x: Any) -> Tensor:
    """log to the base of 10."""
    from . import array_api

    x = _starling.asarray(x)
    made: Tensor = getattr(array_api, "log10")(x if x.dtype.is_float else x.to("f32"))
    return made


def floor_divide(x: Any, other: Any) -> Tensor:
    """x // other, rounded down."""
    made: Tensor = _starling.asarray(x) // other
    return made


def ravel(x: Any) -> Tensor:
    """All elements along one axis."""
    return _starling.reshape(_starling.asarray(x), -1)


def diag(x: Any, diagonal: int = 0) -> Tensor:
    """A matrix with this vector on a diagonal, or a matrix's diagonal."""
    x = _starling.asarray(x)
    if x.ndim != 1:
        return _starling.diagonal(x, offset=diagonal)
    count = x.shape[0]
    size = count + abs(diagonal)
    place = _starling.arange(count)
    places = [place + max(-diagonal, 0), place + max(diagonal, 0)]
    return _starling.index_put(_starling.zeros((size, size), x.dtype, x.device), places, x)


def trace(x: Any) -> Tensor:
    """The sum of the diagonal of the last two axes."""
    return _starling.sum(_starling.diagonal(x), axes=-1)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, … occurs, or the sum of its weights."""
    x = _starling.asarray(x)
    if x.dtype.is_float or x.ndim != 1:
        raise ValueError(f"[bincount] expected a vector of integers, got {x.dtype}{list(x.shape)}")
    most = int(x.max().item()) + 1 if x.size else 0
    if x.size and x.min().item() < 0:
        raise ValueError(f"[bincount] expected integers from 0 on, got {x.min().item()}")
    added = _starling.ones(x.shape, "i64") if weights is None else _starling.asarray(weights)
    return _starling.index_add(_starling.zeros((max(most, minlength),), added.dtype), x.to("i64"), added, 0)


def tensordot(x: Any, other: Any, axes: Any = 2) -> Tensor:
    """Sums of products over so many axes, or over these of each: axes=(of x, of the other)."""
    from . import array_api

    made: Tensor = array_api.tensordot(_starling.asarray(x), _starling.asarray(other), axes=axes)
    return made


def jacobian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the derivatives of function(*arguments), one tensor, by one of them: [*shape of the result, *shape of it]."""

    def derivatives(*arguments: Any) -> Tensor:
        if not -len(arguments) <= argnums < len(arguments):
            raise ValueError(f"[jacobian] expected argnums within the {len(arguments)} arguments, got {argnums}")
        place = argnums % len(arguments)
        x = _starling.asarray(arguments[place])

        def of_one(given: Tensor) -> Any:
            return function(*arguments[:place], given, *arguments[place + 1 :])

        outputs, pullback = _starling._vjp(of_one, (x,))
        if not isinstance(outputs, Tensor):
            raise TypeError(f"[jacobian] expected a function that returns one tensor, got {type(outputs).__name__}")
        rows = _starling.eye(outputs.size, dtype=outputs.dtype)
        found = [pullback(rows[i].reshape(outputs.shape))[0] for i in range(outputs.size)]
        if not found:
            return _starling.zeros((*outputs.shape, *x.shape), outputs.dtype)
        return _starling.stack(found).reshape(*outputs.shape, *x.shape)

    return derivatives


def hessian(function: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of function(*arguments), one number, by one of them: [*its shape, *its shape]."""
    return jacobian(grad(function, argnums), argnums)


# In the order of their lines above; _methods.py makes methods of those that take a tensor first.
METHODS = "isclose allclose amax amin count_nonzero nan_to_num log10 floor_divide ravel diag trace bincount".split()
__all__ = [*METHODS, "is_tensor", "finfo", "iinfo", "hstack", "vstack", "tensordot", "jacobian", "hessian", "pi", "e", "inf", "nan", "newaxis"]
