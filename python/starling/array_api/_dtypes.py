"""Data types of the standard, what they hold, and how they mix."""

from __future__ import annotations

import builtins
import math
from typing import Any, NamedTuple

import numpy as np

from .. import _starling
from .._starling import DType, Tensor

bool = _starling.boolean
int8, int16, int32, int64 = _starling.i8, _starling.i16, _starling.i32, _starling.i64
uint8, uint16, uint32, uint64 = _starling.u8, _starling.u16, _starling.u32, _starling.u64
float32, float64 = _starling.f32, _starling.f64
e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATS = (_starling.f16, _starling.bf16, float32, float64)
KINDS: dict[str, tuple[Any, ...]] = {
    "bool": (bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS,
    "complex floating": (),
    "numeric": SIGNED + UNSIGNED + FLOATS,
}
_NAMES = {
    bool: "bool", int8: "int8", int16: "int16", int32: "int32", int64: "int64", uint8: "uint8", uint16: "uint16",
    uint32: "uint32", uint64: "uint64", _starling.f16: "float16", float32: "float32", float64: "float64",
}  # fmt: skip


def is_float(dtype: Any) -> builtins.bool:
    """Whether a dtype is of floats."""
    return dtype in FLOATS


def is_integer(dtype: Any) -> builtins.bool:
    """Whether a dtype is of integers, signed or not; bool is not."""
    return dtype in SIGNED or dtype in UNSIGNED


def _dtype_of(given: Any) -> DType:
    return given.dtype if isinstance(given, Tensor) else _starling.dtype(given)


def _promoted(a: Any, b: Any) -> Any:
    if a == b:
        return a
    for kind in ("signed integer", "unsigned integer", "real floating"):
        if a in KINDS[kind] and b in KINDS[kind]:
            return _wider(a, b)
    for signed, unsigned in ((a, b), (b, a)):
        if signed in SIGNED and unsigned in UNSIGNED and unsigned != uint64:
            least = SIGNED[UNSIGNED.index(unsigned) + 1]
            return signed if SIGNED.index(signed) >= SIGNED.index(least) else least
    raise TypeError(f"[result_type] expected dtypes that the standard mixes, got {a} and {b}: convert one of them")


def _wider(a: Any, b: Any) -> Any:
    if a.itemsize == b.itemsize:  # float16 and bfloat16
        return float32
    return a if a.itemsize > b.itemsize else b


def _scalar_fits(value: Any, dtype: Any) -> builtins.bool:
    if isinstance(value, builtins.bool):
        return builtins.bool(dtype == bool)
    if isinstance(value, int):
        return is_integer(dtype) or is_float(dtype)
    return isinstance(value, float) and is_float(dtype)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that the standard gives a mixture of arrays, dtypes and numbers, which take the others'."""
    scalars = [x for x in arrays_and_dtypes if isinstance(x, (builtins.bool, int, float))]
    dtypes = [_dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (builtins.bool, int, float))]
    if not dtypes:
        raise ValueError("[result_type] expected at least one array or dtype")
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = _promoted(result, dtype)
    for value in scalars:
        if not _scalar_fits(value, result):
            raise TypeError(f"[result_type] expected a number that {result} has, got {value!r}")
    return result


def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether the rules for mixtures turn the one dtype, or an array's, into the other."""
    try:
        return builtins.bool(_promoted(_dtype_of(from_), _starling.dtype(to)) == to)
    except TypeError:
        return False


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is of a kind ('integral', 'real floating', …), another dtype, or one of a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"[isdtype] expected one of {', '.join(KINDS)}, got {kind!r}")
        return dtype in KINDS[kind]
    return builtins.bool(dtype == kind)


def astype(x: Tensor, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """x in another dtype; copy=False: x itself where it has that one."""
    if device is not None:
        x = x.to(device)
    if x.dtype == dtype:
        return x.copy() if copy and not x.traced else x
    return _starling.cast(x, dtype)


class finfo_object(NamedTuple):
    """What finfo() tells of a float dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class iinfo_object(NamedTuple):
    """What iinfo() tells of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> finfo_object:
    """Bits, precision and range of a float dtype, or of an array's."""
    dtype = _dtype_of(type)
    if dtype == _starling.bf16:
        return finfo_object(16, 2.0**-7, (2 - 2.0**-7) * 2.0**127, -(2 - 2.0**-7) * 2.0**127, 2.0**-126, dtype)
    if not is_float(dtype):
        raise TypeError(f"[finfo] expected a float dtype, got {dtype}")
    about = np.finfo(_NAMES[dtype])
    return finfo_object(
        about.bits, float(about.eps), float(about.max), float(about.min), float(about.smallest_normal), dtype
    )


def iinfo(type: Any, /) -> iinfo_object:
    """Bits and range of an integer dtype, or of an array's."""
    dtype = _dtype_of(type)
    if not is_integer(dtype):
        raise TypeError(f"[iinfo] expected an integer dtype, got {dtype}")
    about = np.iinfo(_NAMES[dtype])
    return iinfo_object(about.bits, int(about.max), int(about.min), dtype)
