"""Functions of single elements."""

from __future__ import annotations

import builtins
import math
from typing import Any, Callable

import numpy as np

from .. import _starling as ops
from .._starling import Tensor
from ._creation import asarray, zeros
from ._dtypes import UNSIGNED, float64, iinfo, is_float, is_integer, result_type, uint64
from ._dtypes import bool as boolean

__all__ = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift
bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
less less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter
not_equal positive pow real reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc
""".split()


def _pair(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Both operands in the dtype that the standard gives their mixture; a number takes the other's."""
    dtype = result_type(x1, x2)
    return _as(x1, dtype), _as(x2, dtype)


def _as(x: Any, dtype: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x if x.dtype == dtype else ops.cast(x, dtype)
    return asarray(x, dtype=dtype)


def _like(x: Tensor, value: float) -> Tensor:
    return ops.full((), value, x.dtype)


def _wide(x: Tensor) -> Tensor:
    """Unsigned integers of 64 bits as signed ones of the same bits, for ops that have no kernels for the former."""
    return ops.cast(x, ops.i64) if x.dtype == uint64 else x


def _eager(who: str, x: Tensor) -> Any:
    if x.traced:
        raise ops.Error(f"[{who}] expected a tensor with values, got one of a function being compiled: call it outside")
    return x.detach().numpy()


def _float_unary(function: Callable[[Any], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    def apply(x: Tensor, /) -> Tensor:
        if not is_float(x.dtype):
            raise TypeError(f"[{name}] expected floats, got {x.dtype}")
        return function(x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = function.__doc__
    return apply


acos = _float_unary(ops.acos, "acos")
asin = _float_unary(ops.asin, "asin")
atan = _float_unary(ops.atan, "atan")
cos = _float_unary(ops.cos, "cos")
cosh = _float_unary(ops.cosh, "cosh")
exp = _float_unary(ops.exp, "exp")
expm1 = _float_unary(ops.expm1, "expm1")
log = _float_unary(ops.log, "log")
log1p = _float_unary(ops.log1p, "log1p")
log2 = _float_unary(ops.log2, "log2")
reciprocal = _float_unary(ops.reciprocal, "reciprocal")
sin = _float_unary(ops.sin, "sin")
sinh = _float_unary(ops.sinh, "sinh")
sqrt = _float_unary(ops.sqrt, "sqrt")
tan = _float_unary(ops.tan, "tan")
tanh = _float_unary(ops.tanh, "tanh")


def log10(x: Tensor, /) -> Tensor:
    """Logarithm to base 10, of floats."""
    return ops.mul(log(x), _like(x, 1 / math.log(10)))


def acosh(x: Tensor, /) -> Tensor:
    """Inverse of cosh, NaN below 1. Near 1 by log1p, for large x by a logarithm: x² would leave the range."""
    far = ops.greater(x, _like(x, 1e8))
    t = ops.where(far, _like(x, 0.0), ops.sub(x, _like(x, 1.0)))
    near = log1p(ops.add(t, ops.sqrt(ops.mul(t, ops.add(t, _like(x, 2.0))))))
    result = ops.where(far, ops.add(log(x), _like(x, math.log(2))), near)
    return ops.where(ops.less(x, _like(x, 1.0)), _like(x, math.nan), result)


def asinh(x: Tensor, /) -> Tensor:
    """Inverse of sinh. Near 0 by log1p, for large x by a logarithm: x² would leave the range."""
    size = ops.abs(x)
    far = ops.greater(size, _like(x, 1e8))
    t = ops.where(far, _like(x, 0.0), size)
    square = ops.mul(t, t)
    near = log1p(ops.add(t, ops.div(square, ops.add(_like(x, 1.0), ops.sqrt(ops.add(square, _like(x, 1.0)))))))
    result = ops.where(far, ops.add(log(size), _like(x, math.log(2))), near)
    return ops.where(ops.equal(x, _like(x, 0.0)), x, ops.mul(ops.sign(x), result))


def atanh(x: Tensor, /) -> Tensor:
    """Inverse of tanh."""
    return ops.mul(ops.sub(log1p(x), log1p(ops.neg(x))), _like(x, 0.5))


def abs(x: Tensor, /) -> Tensor:
    """Size without sign."""
    return positive(x) if x.dtype in UNSIGNED else ops.abs(x)


def positive(x: Tensor, /) -> Tensor:
    """x itself, in memory of its own."""
    return x if x.traced else x.copy()


def negative(x: Tensor, /) -> Tensor:
    """-x; of unsigned integers what the bits make."""
    return ops.cast(ops.neg(_wide(x)), uint64) if x.dtype == uint64 else ops.neg(x)


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN of NaN."""
    if x.dtype in UNSIGNED:
        return ops.cast(ops.not_equal(x, zeros((), dtype=x.dtype)), x.dtype)
    zero = zeros((), dtype=x.dtype)
    return ops.where(ops.equal(x, zero), zero, ops.sign(x))  # of -0, too


def square(x: Tensor, /) -> Tensor:
    """x · x."""
    return multiply(x, x)


def _whole(function: Callable[[Any], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    """Rounding: integers are what they are."""

    def apply(x: Tensor, /) -> Tensor:
        return positive(x) if is_integer(x.dtype) else function(x)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = function.__doc__
    return apply


ceil, floor = _whole(ops.ceil, "ceil"), _whole(ops.floor, "floor")
round, trunc = _whole(ops.round, "round"), _whole(ops.trunc, "trunc")


def _test(function: Callable[[Any], Tensor], name: str, of_integers: bool) -> Callable[[Tensor], Tensor]:
    def apply(x: Tensor, /) -> Tensor:
        return function(x) if is_float(x.dtype) else ops.full(x.shape, of_integers, boolean)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = function.__doc__
    return apply


isfinite = _test(ops.isfinite, "isfinite", True)
isinf = _test(ops.isinf, "isinf", False)
isnan = _test(ops.isnan, "isnan", False)


def ordered(x: Tensor) -> Tensor:
    """uint64 as int64 in the same order: with its highest bit turned over."""
    return ops.bitwise_xor(_wide(x), _whole_number(iinfo(ops.i64).min))


def unordered(x: Tensor) -> Tensor:
    """Undoes ordered()."""
    return ops.cast(ops.bitwise_xor(x, _whole_number(iinfo(ops.i64).min)), uint64)


def _whole_number(value: int) -> Tensor:
    return asarray(value, dtype=ops.i64)


def _shifted_right(a: Tensor, b: Tensor) -> Tensor:
    """Of uint64 as int64: the bits that come in on the left are zeros."""
    zero, one = _whole_number(0), _whole_number(1)
    kept = ops.right_shift(_whole_number(iinfo(ops.i64).max), ops.maximum(ops.sub(b, one), zero))
    return ops.where(ops.greater(b, zero), ops.bitwise_and(ops.right_shift(a, b), kept), a)


def _divided(a: Tensor, b: Tensor) -> Tensor:
    """The quotient of uint64 as int64: of the half, doubled, and one more where the rest allows it."""
    zero, one = _whole_number(0), _whole_number(1)
    large = ops.less(b, zero)  # from 2⁶³ on: the quotient is 0 or 1
    by = ops.where(ops.logical_or(large, ops.equal(b, zero)), one, b)
    half = ops.left_shift(ops.floor_div(_shifted_right(a, one), by), one)
    rest = ops.sub(a, ops.mul(half, by))
    more = ops.cast(ops.greater_equal(ordered(rest), ordered(by)), ops.i64)
    return ops.where(large, ops.cast(ops.greater_equal(ordered(a), ordered(b)), ops.i64), ops.add(half, more))


def _rest(a: Tensor, b: Tensor) -> Tensor:
    return ops.sub(a, ops.mul(_divided(a, b), b))


# What ops that have no kernels for uint64 do with it: through signed numbers of the same order, or of the same bits.
_BY_ORDER = {"less", "less_equal", "greater", "greater_equal", "maximum", "minimum"}
_BY_BITS = {"floor_divide": _divided, "remainder": _rest, "bitwise_right_shift": _shifted_right}


def _of_uint64(function: Callable[[Any, Any], Tensor], name: str, a: Tensor, b: Tensor) -> Tensor:
    if name in _BY_BITS:
        return ops.cast(_BY_BITS[name](_wide(a), _wide(b)), uint64)
    if name not in _BY_ORDER:
        return function(a, b)
    made = function(ordered(a), ordered(b))
    return made if made.dtype == boolean else unordered(made)


def _binary(function: Callable[[Any, Any], Tensor], name: str) -> Callable[[Any, Any], Tensor]:
    def apply(x1: Any, x2: Any, /) -> Tensor:
        a, b = _pair(x1, x2)
        return _of_uint64(function, name, a, b) if a.dtype == uint64 else function(a, b)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = function.__doc__
    return apply


add = _binary(ops.add, "add")
subtract = _binary(ops.sub, "subtract")
multiply = _binary(ops.mul, "multiply")
atan2 = _binary(ops.atan2, "atan2")
maximum, minimum = _binary(ops.maximum, "maximum"), _binary(ops.minimum, "minimum")
floor_divide = _binary(ops.floor_div, "floor_divide")
equal, not_equal = _binary(ops.equal, "equal"), _binary(ops.not_equal, "not_equal")
less, less_equal = _binary(ops.less, "less"), _binary(ops.less_equal, "less_equal")
greater, greater_equal = _binary(ops.greater, "greater"), _binary(ops.greater_equal, "greater_equal")
logical_and, logical_or = _binary(ops.logical_and, "logical_and"), _binary(ops.logical_or, "logical_or")
logical_xor = _binary(ops.logical_xor, "logical_xor")
bitwise_and, bitwise_or = _binary(ops.bitwise_and, "bitwise_and"), _binary(ops.bitwise_or, "bitwise_or")
bitwise_xor = _binary(ops.bitwise_xor, "bitwise_xor")
bitwise_left_shift = _binary(ops.left_shift, "bitwise_left_shift")
bitwise_right_shift = _binary(ops.right_shift, "bitwise_right_shift")
pow = _binary(ops.pow, "pow")
remainder = _binary(ops.mod, "remainder")


def divide(x1: Any, x2: Any, /) -> Tensor:
    """x1 / x2 in floats: of integers in float64."""
    a, b = _pair(x1, x2)
    if not is_float(a.dtype):
        a, b = ops.cast(a, float64), ops.cast(b, float64)
    return ops.div(a, b)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Every bit turned over; of bool: not."""
    return ops.bitwise_not(x)


def logical_not(x: Tensor, /) -> Tensor:
    """Where x is zero or False."""
    return ops.logical_not(x)


def real(x: Tensor, /) -> Tensor:
    """x itself: there are no complex numbers."""
    return positive(x)


def conj(x: Tensor, /) -> Tensor:
    """x itself: there are no complex numbers."""
    return positive(x)


def imag(x: Tensor, /) -> Tensor:
    """Zeros: there are no complex numbers."""
    return ops.zeros_like(x)


def hypot(x1: Any, x2: Any, /) -> Tensor:
    """√(x1² + x2²), of numbers too whose squares would leave the range."""
    a, b = (ops.abs(x) for x in _pair(x1, x2))
    large, small = ops.maximum(a, b), ops.minimum(a, b)
    one, none = _like(a, 1.0), _like(a, 0.0)
    share = ops.div(small, ops.where(ops.greater(large, none), large, one))
    result = ops.mul(large, ops.sqrt(ops.add(ops.mul(share, share), one)))
    infinite = ops.logical_or(ops.isinf(a), ops.isinf(b))
    return ops.where(infinite, _like(a, math.inf), result)


def logaddexp(x1: Any, x2: Any, /) -> Tensor:
    """log(exp(x1) + exp(x2)), of numbers too whose powers would leave the range."""
    a, b = _pair(x1, x2)
    large = ops.maximum(a, b)
    apart = ops.where(ops.equal(a, b), _like(a, 0.0), ops.abs(ops.sub(a, b)))  # of equal infinities, too
    same = ops.logical_and(ops.equal(a, b), ops.isinf(a))
    return ops.where(same, a, ops.add(large, ops.log1p(ops.exp(ops.neg(apart)))))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x between two bounds, each of which may be missing, a number or an array."""
    result = positive(x)
    if min is not None:
        result = _bounded(result, min, maximum)
    if max is not None:
        result = _bounded(result, max, minimum)
    return result


def _bounded(x: Tensor, bound: Any, choose: Callable[[Any, Any], Tensor]) -> Tensor:
    if not isinstance(bound, Tensor):
        return choose(x, _as(_within(bound, x.dtype), x.dtype))
    return choose(x, _as(bound, x.dtype))


def _within(bound: Any, dtype: Any) -> Any:
    """A bound that the dtype does not have bounds nothing: the nearest number that it has."""
    if not is_integer(dtype):
        return float(bound)
    about = iinfo(dtype)
    if bound != bound:
        raise ValueError("[clip] expected a number as a bound of integers, got NaN")
    return int(builtins.min(builtins.max(bound, about.min), about.max))


def signbit(x: Tensor, /) -> Tensor:
    """Where the sign is minus, that of -0 and NaN too. Eager."""
    return ops.from_numpy(np.asarray(np.signbit(_eager("signbit", x))))


def copysign(x1: Any, x2: Any, /) -> Tensor:
    """The size of x1 with the sign of x2. Eager."""
    a, b = _pair(x1, x2)
    return ops.from_numpy(np.asarray(np.copysign(_eager("copysign", a), _eager("copysign", b))))


def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The next number of the dtype from x1 on toward x2. Eager."""
    a, b = _pair(x1, x2)
    return ops.from_numpy(np.asarray(np.nextafter(_eager("nextafter", a), _eager("nextafter", b))))
