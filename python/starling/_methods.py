"""Methods of tensors: functions that are as natural behind a tensor as before it, x.sum() as sum(x)."""

# mypy: disable-error-code="method-assign,assignment,attr-defined,misc"
# Methods are assigned to a class of the compiled part; its stub declares them (stubs.py).

from typing import Any, Callable, Iterator

from . import _functions, _starling
from ._starling import Tensor

_METHODS = """
abs acos all any argmax argmin argsort asin atan broadcast_to ceil clamp cos cosh cumprod cumsum diagonal dot elu erf
exp expand expm1 flatten flip floor fmod gather gelu index_select isfinite isinf isnan log log1p log2 log_softmax logsumexp
masked_fill masked_select matmul max maximum mean min minimum movedim narrow neg nonzero norm outer permute pow prod reciprocal relu
repeat reshape roll round rsqrt scatter scatter_add sigmoid sign silu sin sinh softmax sort split sqrt square squeeze std
sum swapaxes take tan tanh tile topk transpose tril triu trunc unbind unique unsqueeze var where
""".split()


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape: x.reshape(2, -1), x.reshape((2, -1))."""
    return _starling.reshape(self, shape[0] if len(shape) == 1 else shape)


def _permute(self: Tensor, *order: Any) -> Tensor:
    """Axes in this order: x.permute(0, 2, 1)."""
    return _starling.permute(self, order[0] if len(order) == 1 and not isinstance(order[0], int) else order)


def _transpose(self: Tensor, *order: Any) -> Tensor:
    """Axes in this order, two axes swapped, or all reversed: x.transpose(0, 2, 1), x.transpose(0, 1), x.transpose()."""
    if len(order) == 2 and self.ndim != 2:
        return _starling.swapaxes(self, *order)
    return _starling.transpose(self, order[0] if len(order) == 1 and not isinstance(order[0], int) else order)


def _in_place(operator: Any) -> Callable[..., Any]:
    """x += y changes x, also for others who hold it; where gradients or a trace are recorded, it makes a new x."""

    def method(self: Tensor, other: Any) -> Any:
        result = operator(self, other)
        if self.requires_grad and self.is_leaf and result is not NotImplemented and result.requires_grad:
            raise _starling.Error(
                "[setitem] expected a tensor without gradient, got one that requires it, whose name would be another value's from here "
                "on: write under no_grad(), or write x = x - y"
            )
        if result is NotImplemented or result.requires_grad or (result.traced and self.traced):
            return result
        if result.traced:  # a tensor from outside, inside compile(): its program assigns it
            self.assign(result)
        else:
            self[...] = result
        return self

    return method


def _written(name: str) -> Callable[..., Any]:
    """x.add_(y) writes into x, as PyTorch's methods with an underscore; like x[...] = y not where gradients are recorded."""
    operator = getattr(Tensor, f"__{name}__")

    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        result = operator(self, other if alpha == 1 else other * alpha)
        return _copy(self, result)

    method.__doc__ = f"x.{name}_(y, alpha=1) writes the result of x.{name}(alpha · y) into x, which it returns."
    return method


def _zero(self: Tensor) -> Tensor:
    """Writes zeros everywhere."""
    return _copy(self, 0)


def _dim(self: Tensor) -> int:
    """Number of axes."""
    return self.ndim


def _cpu(self: Tensor) -> Tensor:
    """On the CPU."""
    return self.to("cpu")


def _where(self: Tensor, condition: Any, other: Any) -> Tensor:
    """x where the condition holds, the other elsewhere."""
    return _starling.where(condition, self, other)


def _in_dtype(name: str) -> Callable[[Tensor], Tensor]:
    """x.float() and the like: PyTorch's int has 32 bits."""
    target = {"int": "i32"}.get(name, name)

    def method(self: Tensor) -> Tensor:
        return self.to(target)

    method.__doc__ = f"The same values as {_starling.dtype(target).name}."
    return method


def _copy(self: Tensor, source: Any) -> Tensor:
    """Writes another tensor's values into this one, which it returns; in compile() its program does so."""
    if isinstance(source, Tensor) and source.traced and not self.traced:
        self.assign(source)
    else:
        self[...] = source
    return self


def _fill(self: Tensor, value: Any) -> Tensor:
    """Writes one value everywhere."""
    return _copy(self, value)


def _chunk(self: Tensor, chunks: int, dim: int = 0) -> Any:
    """So many parts of equal size along an axis, the last one smaller where they do not fit."""
    if chunks < 1:
        raise ValueError(f"[chunk] expected at least one part, got {chunks}")
    size = self.shape[dim]
    each = max(1, -(-size // chunks))
    return _starling.split(self, tuple(min(each, size - first) for first in range(0, size, each)) or (0,), dim)


def _t(self: Tensor) -> Tensor:
    """A matrix with rows and columns exchanged; a vector as it is."""
    if self.ndim > 2:
        raise ValueError(f"[t] expected at most 2 dimensions, got {self.ndim}: x.mT swaps the last two")
    return self.T if self.ndim == 2 else self


def _contiguous(self: Tensor) -> Tensor:
    """The tensor itself if its memory is in row-major order, else a copy that is."""
    return self if self.traced or self.is_contiguous else self.clone()


def _cuda(self: Tensor, device: Any = 0) -> Tensor:
    """On a GPU, by its number or name."""
    return self.to(f"cuda:{device}" if isinstance(device, int) else device)


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("[iter] expected a tensor with dimensions, got a scalar")
    return (self[i] for i in range(len(self)))


def _plain(name: str) -> Callable[..., Any]:
    """x.add(y, alpha=2) and the like: operators by name, which return new tensors."""
    operator = getattr(Tensor, f"__{name}__")

    def method(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
        made: Tensor = operator(self, other if alpha == 1 else other * alpha)
        return made

    method.__doc__ = f"x.{name}(y, alpha=1): the operator, with alpha · y."
    return method


def _compared(name: str) -> Callable[[Tensor, Any], Any]:
    operator = getattr(Tensor, f"__{name}__")

    def method(self: Tensor, other: Any) -> Any:
        return operator(self, other)

    method.__doc__ = f"The operator: x.{name}(y)."
    return method


def _product(self: Tensor, other: Any) -> Tensor:
    """The matrix product."""
    return _starling.matmul(self, other)


def _clip(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The nearest number within [min, max]."""
    return _starling.clamp(self, min, max)


def _clamp(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Writes the nearest number within [min, max] everywhere."""
    return _copy(self, _starling.clamp(self, min, max))


def _masked_fill(self: Tensor, mask: Any, value: Any) -> Tensor:
    """Writes a value where the mask holds."""
    return _copy(self, _starling.masked_fill(self, mask, value))


def _normal(self: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Writes normal numbers everywhere."""
    return _copy(self, _starling.normal(self.shape, mean, std, self.dtype))


def _uniform(self: Tensor, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Writes numbers in [low, high) everywhere."""
    return _copy(self, _starling.uniform(self.shape, low, high, self.dtype))


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """In the dtype and on the device of another tensor."""
    return self.to(other.dtype, other.device)


def _expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Repeated to the shape of another tensor."""
    return _starling.broadcast_to(self, other.shape)


def _view_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of another tensor."""
    return _starling.reshape(self, other.shape)


def _round(self: Tensor, digits: int | None = None) -> Tensor:
    """round(x), round(x, 2): halves to even."""
    if not digits or not self.dtype.is_float:
        return _starling.round(self) if self.dtype.is_float else self
    scale = 10.0**digits
    return _starling.round(self * scale) / scale


def _divmod(self: Tensor, other: Any) -> tuple[Any, Any]:
    """(x // y, x % y)"""
    return self // other, self % other


def _rdivmod(self: Tensor, other: Any) -> tuple[Any, Any]:
    return other // self, other % self


def _namespace(self: Tensor, /, *, api_version: Any = None) -> Any:
    """The namespace of the array API standard, starling.array_api."""
    from . import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"[array_api] expected a version up to 2024.12, got {api_version!r}")
    return array_api


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """On another device."""
    if stream is not None:
        raise ValueError("[to_device] expected no stream: tensors are in order by themselves")
    return self.to(device)


def _html(self: Tensor) -> str:
    """Shown by notebooks."""
    import html

    return f"<pre>{html.escape(repr(self))}</pre>"


def _reduce(self: Tensor) -> Any:
    """Pickles the values; history and name are left behind."""
    if self.dtype == _starling.bf16:
        return _unpickle, (self.to("f32").detach().numpy().copy(), "bf16", self.requires_grad)
    return _unpickle, (self.detach().numpy().copy(), None, self.requires_grad)


def _dtype(name: str) -> Any:
    """For pickles, which do not hold functions of the compiled part."""
    return _starling.dtype(name)


def _unpickle(array: Any, dtype: Any, requires_grad: bool) -> Tensor:
    return _starling.tensor(array, dtype=dtype, requires_grad=requires_grad)


for _name in _METHODS:
    setattr(Tensor, _name, _starling._as_method(getattr(_starling, _name)))
Tensor.reshape = Tensor.view = _reshape
Tensor.permute = _permute
Tensor.transpose = _transpose
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(Tensor, f"__i{_name}__", _in_place(getattr(Tensor, f"__{_name}__")))
for _name in ("add", "sub", "mul"):
    setattr(Tensor, f"{_name}_", _written(_name))
Tensor.div_ = _written("truediv")
Tensor.copy_ = _copy
Tensor.fill_ = _fill
Tensor.zero_ = _zero
Tensor.chunk = _chunk
Tensor.t = _t
Tensor.contiguous = _contiguous
Tensor.dim = _dim
Tensor.cpu = _cpu
Tensor.cuda = _cuda
Tensor.T = property(_starling.transpose, doc="Axes in reverse order.")
Tensor.mT = property(_starling.matrix_transpose, doc="The last two axes swapped.")
Tensor.__iter__ = _iterate
Tensor.__reduce__ = _reduce
Tensor._repr_html_ = _html
Tensor.__array_namespace__ = _namespace
Tensor.to_device = _to_device
Tensor.__complex__ = lambda self: complex(self.item())
Tensor.where = _where
for _name in ("add", "sub", "mul"):
    setattr(Tensor, _name, _plain(_name))
Tensor.div = _plain("truediv")
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Tensor, _name, _compared(_name))
Tensor.mm = Tensor.bmm = _product
Tensor.clip = _clip
Tensor.clamp_ = _clamp
Tensor.masked_fill_ = _masked_fill
Tensor.normal_ = _normal
Tensor.uniform_ = _uniform
Tensor.type_as = _type_as
Tensor.expand_as = _expand_as
Tensor.view_as = _view_as
Tensor.__round__ = _round
Tensor.__divmod__ = _divmod
Tensor.__rdivmod__ = _rdivmod
Tensor.itemsize = property(lambda self: self.dtype.itemsize, doc="Bytes of an element.")
Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize, doc="Bytes of the elements.")
for _name in _functions.METHODS:
    setattr(Tensor, _name, getattr(_functions, _name))
for _name in ("float", "double", "half", "long", "int", "bool"):
    setattr(Tensor, _name, _in_dtype(_name))
