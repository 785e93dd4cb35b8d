"""Functions of NumPy on tensors: np.exp(x), np.mean(x, axis=0), array + x.

What the library has too is computed by it: the result is a tensor, traced and differentiable like any other. Other functions of NumPy
get the values as arrays and return arrays.
"""

# mypy: disable-error-code="attr-defined,method-assign"
# The protocols are assigned to a class of the compiled part.

from __future__ import annotations

import inspect
from typing import Any, Callable

from . import _starling
from ._starling import Tensor

_OPERATORS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "truediv", "true_divide": "truediv", "floor_divide": "floordiv",
    "remainder": "mod", "power": "pow", "matmul": "matmul", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor",
    "left_shift": "lshift", "right_shift": "rshift",
}  # fmt: skip
_MIRRORED = {"equal": "eq", "not_equal": "ne", "less": "gt", "greater": "lt", "less_equal": "ge", "greater_equal": "le"}
_COMPARED = {"equal": "eq", "not_equal": "ne", "less": "lt", "greater": "gt", "less_equal": "le", "greater_equal": "ge"}
# Names that are not ours.
_NAMES = {
    "absolute": "abs", "negative": "neg", "invert": "bitwise_not", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "rint": "round",
}  # fmt: skip
_SAME = (
    "exp expm1 log log1p log2 sqrt square reciprocal sign sin cos tan sinh cosh tanh floor ceil trunc isnan isinf isfinite logical_not "
    "maximum minimum fmod logical_and logical_or logical_xor"
).split()


def _operator(name: str, reversed_name: str) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        return getattr(a, name)(b) if isinstance(a, Tensor) else getattr(b, reversed_name)(a)

    return apply


_UFUNCS: dict[str, Callable[..., Any]] = {
    **{theirs: _operator(f"__{ours}__", f"__r{ours}__") for theirs, ours in _OPERATORS.items()},
    **{theirs: _operator(f"__{ours}__", f"__{_MIRRORED[theirs]}__") for theirs, ours in _COMPARED.items()},
    **{theirs: getattr(_starling, ours) for theirs, ours in _NAMES.items()},
    **{name: getattr(_starling, name) for name in _SAME},
}
_FLOATS_ONLY = {"exp", "expm1", "log", "log1p", "log2", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "reciprocal",
                "arcsin", "arccos", "arctan", "arctan2"}  # fmt: skip


def _array(value: Any) -> Any:
    """The same with arrays in the place of tensors, also within lists, tuples and dicts."""
    if isinstance(value, Tensor):
        return value.numpy()
    if type(value) in (list, tuple):
        return type(value)(_array(item) for item in value)
    if type(value) is dict:
        return {key: _array(item) for key, item in value.items()}
    return value


def _float(x: Any) -> Any:
    x = _starling.asarray(x)
    return x if x.dtype.is_float else x.to("f32")


def _array_ufunc(self: Tensor, function: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    ours = _UFUNCS.get(function.__name__)
    if ours is not None and method == "__call__" and not keywords:
        return ours(*(map(_float, inputs) if function.__name__ in _FLOATS_ONLY else inputs))
    out = keywords.get("out", ())
    result = getattr(function, method)(*_array(inputs), **_array(keywords))
    return out[0] if len(out) == 1 and isinstance(out[0], Tensor) else result


def _reduction(name: str, floats: bool = False) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        from . import array_api

        return getattr(array_api, name)(_float(a) if floats else _starling.asarray(a), axis=axis, keepdims=keepdims)

    return reduce


def _spread(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
        from . import array_api

        return getattr(array_api, name)(_float(a), axis=axis, correction=float(ddof), keepdims=keepdims)

    return reduce


def _joined(name: str) -> Callable[..., Any]:
    def join(arrays: Any, axis: int = 0) -> Any:
        return getattr(_starling, name)(list(arrays), axis)

    return join


def _where(condition: Any, x: Any, y: Any) -> Any:
    return _starling.where(condition, x, y)


def _clip(a: Any, a_min: float | None, a_max: float | None) -> Any:
    return _starling.clamp(a, a_min, a_max)


def _transpose(a: Any, axes: Any = None) -> Any:
    return _starling.transpose(a) if axes is None else _starling.permute(a, axes)


def _reshape(a: Any, shape: Any) -> Any:
    return _starling.reshape(a, shape)


def _expand_dims(a: Any, axis: int) -> Any:
    return _starling.unsqueeze(a, axis)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _reduction(name) for name in ("sum", "prod", "all", "any", "argmax", "argmin")},
    **{theirs: _reduction(ours) for theirs, ours in (("max", "max"), ("amax", "max"), ("min", "min"), ("amin", "min"))},
    "mean": _reduction("mean", floats=True), "std": _spread("std"), "var": _spread("var"),
    "concatenate": _joined("concat"), "stack": _joined("stack"), "where": _where, "clip": _clip, "transpose": _transpose,
    "reshape": _reshape, "expand_dims": _expand_dims, "ones_like": lambda a: _starling.ones_like(a),
    "zeros_like": lambda a: _starling.zeros_like(a),
}  # fmt: skip


def _fits(function: Callable[..., Any], arguments: Any, keywords: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **keywords)
        return True
    except TypeError:
        return False


def _array_function(self: Tensor, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
    ours = _FUNCTIONS.get(function.__name__) if function.__module__ == "numpy" else None
    given = {name: value for name, value in keywords.items() if value is not None or name == "axis"}
    if ours is not None and _fits(ours, arguments, given):
        return ours(*arguments, **given)
    return function(*_array(arguments), **_array(keywords))


Tensor.__array_ufunc__ = _array_ufunc
Tensor.__array_function__ = _array_function
