"""Arrays out of nothing, numbers or other arrays."""

from __future__ import annotations

from typing import Any

from .. import _starling
from .._starling import Tensor
from ._dtypes import float32, int64, is_float, uint64


def _placed(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to(device)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """An array of a tensor, number, nested lists or anything with DLPack. copy=True: memory of its own; False: refused where it would need some."""
    if isinstance(obj, Tensor):
        if copy is False and (dtype is not None and obj.dtype != dtype):
            raise ValueError(f"[asarray] expected the dtype {obj.dtype} where nothing may be copied, got {dtype}")
        made = obj if dtype is None or obj.dtype == dtype else _starling.cast(obj, dtype)
        return _placed(made.copy() if copy and made is obj else made, device)
    if copy is False and not hasattr(obj, "__dlpack__") and not hasattr(obj, "__array__"):
        raise ValueError("[asarray] expected an array where nothing may be copied, got numbers")
    if dtype == uint64 and isinstance(obj, (int, list, tuple)):
        import numpy as np

        obj, dtype = np.asarray(obj, np.uint64), None
    return _placed(_starling.tensor(obj, dtype) if copy else _starling.asarray(obj, dtype), device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """What another library holds, as a tensor over the same memory where that can be."""
    return _starling.from_dlpack(x, device=device, copy=copy)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value; without dtype in the value's own."""
    value = asarray(fill_value, dtype=dtype, device=device)  # exact, also for integers that doubles do not hold
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return _starling.broadcast_to(value, sizes).copy() if not value.traced else _starling.broadcast_to(value, sizes)


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of one value, with the shape, dtype and device of x where they are not given."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of zeros; float32 without dtype."""
    return _placed(_starling.zeros(shape, float32 if dtype is None else dtype), device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros with the shape, dtype and device of x where they are not given."""
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array of ones; float32 without dtype."""
    return _placed(_starling.ones(shape, float32 if dtype is None else dtype), device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones with the shape, dtype and device of x where they are not given."""
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array whose values do not matter: zeros."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array like x whose values do not matter: zeros."""
    return zeros_like(x, dtype=dtype, device=device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """start, start + step, … below stop; arange(stop) begins at 0. Integers where all three are, else float32."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("[arange] expected a step other than 0")
    whole = all(isinstance(value, int) for value in (start, stop, step))
    wanted = dtype if dtype is not None else int64 if whole else float32
    if whole:  # counted in integers: doubles do not hold all of them
        count = len(range(start, stop, step))
        steps = _starling.arange(0, count, 1, int64)
        made = _starling.add(_starling.mul(steps, asarray(step, dtype=int64)), asarray(start, dtype=int64))
        return _placed(made if wanted == int64 else _starling.cast(made, wanted), device)
    if (stop - start) / step <= 0:
        return zeros((0,), dtype=wanted, device=device)
    made = _starling.arange(float(start), float(stop), float(step), wanted if is_float(wanted) else _starling.f64)
    return _placed(made if made.dtype == wanted else _starling.cast(made, wanted), device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Tensor:
    """num numbers from start to stop at equal distances, stop among them unless endpoint=False."""
    wanted = float32 if dtype is None else dtype
    parts = num - 1 if endpoint else num
    whole = _starling.linspace(float(start), float(stop), parts + 1, wanted) if parts > 0 else None
    if whole is None:
        return full((num,), float(start), dtype=wanted, device=device)
    return _placed(whole[:num], device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal of a matrix, zeros beside it."""
    columns = n_rows if n_cols is None else n_cols
    rows, cols = _starling.arange(0, n_rows), _starling.arange(0, columns)
    on = _starling.equal(_starling.sub(cols, rows[:, None]), k)
    return _placed(_starling.cast(on, float32 if dtype is None else dtype), device)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid, one array for each axis. indexing 'xy': the first two axes change places; 'ij': they do not."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] expected 'xy' or 'ij' as indexing, got {indexing!r}")
    if not arrays:
        return []
    made = list(_starling.meshgrid(*arrays, indexing="ij"))
    return [x.swapaxes(0, 1) for x in made] if indexing == "xy" and len(made) > 1 else made


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The k-th diagonal of matrices and what is below it, zeros elsewhere."""
    return _starling.where(_below(x, k), x, zeros((), dtype=x.dtype))


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The k-th diagonal of matrices and what is above it, zeros elsewhere."""
    return _starling.where(_starling.logical_not(_below(x, k - 1)), x, zeros((), dtype=x.dtype))


def _below(x: Tensor, k: int) -> Tensor:
    """Where an element of a matrix lies on the k-th diagonal or below it."""
    rows, columns = x.shape[-2:]
    return _starling.less_equal(_starling.arange(0, columns), _starling.add(_starling.arange(0, rows), k)[:, None])
