"""Gradients: scopes, transforms of functions, functions with gradients of one's own."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

from . import _starling
from ._starling import GradScope, Tensor


class _Scope:
    """A scope that is a context manager and a decorator."""

    def __init__(self, on: bool):
        self._on = on
        self._entered: list[GradScope] = []

    def __enter__(self) -> _Scope:
        scope = GradScope(self._on)
        scope.__enter__()
        self._entered.append(scope)
        return self

    def __exit__(self, *reason: Any) -> None:
        self._entered.pop().__exit__(*reason)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*arguments: Any, **keywords: Any) -> Any:
            with _Scope(self._on):
                return function(*arguments, **keywords)

        return inside


def no_grad() -> _Scope:
    """Nothing is recorded for gradients: with no_grad(): …, or @no_grad()."""
    return _Scope(False)


def enable_grad() -> _Scope:
    """Recording again, inside no_grad()."""
    return _Scope(True)


def _places(argnums: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for place in places:
        if not -count <= place < count:
            raise ValueError(f"[grad] expected argnums within the {count} arguments, got {place}")
    return tuple(place % count for place in places)


def _is_leaf(value: Any, top: bool) -> bool:
    number = isinstance(value, (float, int) if top else float) and not isinstance(value, bool)
    return number or isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "shape"))


def _gathered(value: Any, leaves: list[Any], top: bool = True) -> Callable[[Iterator[Any], bool], Any]:
    """The tensors and floats of nested tuples, lists and dicts; the result builds the same from others in their places.

    Whatever else is there stays as it is, or, for gradients, is None.
    """
    if _is_leaf(value, top):
        leaves.append(value)
        return lambda given, gradients: next(given)
    if isinstance(value, dict):
        items = {key: _gathered(item, leaves, False) for key, item in value.items()}
        return lambda given, gradients: {key: build(given, gradients) for key, build in items.items()}
    if isinstance(value, (tuple, list)):
        parts = [_gathered(item, leaves, False) for item in value]
        kind: Any = type(value)
        named = hasattr(kind, "_fields")

        def build_all(given: Iterator[Any], gradients: bool) -> Any:
            made = [build(given, gradients) for build in parts]
            return kind(*made) if named else kind(made)

        return build_all
    if top:
        raise TypeError(f"[grad] expected tensors, or tuples, lists and dicts of them, to take the gradient by, got {type(value).__name__}")
    return lambda given, gradients: None if gradients else value


def value_and_grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns (value, gradient) of a function with one output element.

    Arguments may be nested in tuples, lists and dicts; the gradient is nested as its argument is. argnums: by which of the positional
    arguments, counted from the end if negative. has_aux: the function returns (loss, more), and the value is both.
    """

    @functools.wraps(function)
    def both(*arguments: Any, **keywords: Any) -> Any:
        places = _places(argnums, len(arguments))
        leaves: list[Any] = []
        builds = [_gathered(arguments[place], leaves) for place in places]
        more: list[Any] = []

        def of_chosen(*chosen: Any) -> Any:
            given = iter(chosen)
            all_of_them = list(arguments)
            for place, build in zip(places, builds):
                all_of_them[place] = build(given, False)
            result = function(*all_of_them, **keywords)
            if not has_aux:
                return result
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"[grad] expected (loss, more) from a function with has_aux, got {type(result).__name__}")
            more[:] = [result[1]]
            return result[0]

        value, gradients = _starling._value_and_grad(of_chosen, leaves)
        given = iter(gradients)
        nested = tuple(build(given, True) for build in builds)
        return (value, more[0]) if has_aux else value, nested[0] if isinstance(argnums, int) else nested

    return both


def grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient of a function with one output element, as a function: grad(grad(f)) is the second derivative.

    Arguments and argnums as in value_and_grad(). has_aux: the function returns (loss, more), and the result is (gradient, more).
    """
    both = value_and_grad(function, argnums, has_aux=has_aux)

    @functools.wraps(function)
    def gradient(*arguments: Any, **keywords: Any) -> Any:
        value, found = both(*arguments, **keywords)
        return (found, value[1]) if has_aux else found

    return gradient


def hessian_vector_product(function: Callable[[Any], Any], input: Any, vector: Any) -> Any:
    """The second derivative of function(input), one element, times a vector that is nested as the input is."""
    along: list[Any] = []
    _gathered(vector, along)

    def slope(x: Any) -> Any:
        found: list[Any] = []
        _gathered(grad(function)(x), found)
        if len(found) != len(along):
            raise ValueError(f"[hessian_vector_product] expected a vector nested as the input, of {len(found)} tensors, got {len(along)}")
        return sum(((one * other).sum() for one, other in zip(found, along)), start=_starling.zeros(()))

    return grad(slope)(input)


def vjp(function: Callable[..., Any], *inputs: Any) -> Any:
    """(outputs, pullback): the pullback takes cotangents of the outputs to gradients of the inputs."""
    return _starling._vjp(function, inputs)


def jvp(function: Callable[..., Any], inputs: Any, tangents: Any) -> Any:
    """(outputs, their directional derivatives along the tangents): of one input jvp(f, x, v), of several jvp(f, (x, y), (v, w))."""
    one = _is_leaf(inputs, True)
    if one != _is_leaf(tangents, True):
        raise TypeError("[jvp] expected tangents as the inputs are, a tensor or a tuple, got one of each")
    return _starling._jvp(function, (inputs,) if one else inputs, (tangents,) if one else tangents)


def recompute(function: Callable[..., Any], *inputs: Any) -> Any:
    """function(*inputs), keeping only the inputs for the backward pass, which runs it again."""
    return _starling._recompute(function, inputs)


class Function:
    """A function with a gradient of its own:

    class Cube(starling.Function):
        @staticmethod
        def forward(context, x):
            context.save(x)
            return x * x * x

        @staticmethod
        def backward(context, dy):
            (x,) = context.saved
            return 3 * x * x * dy

    y = Cube.apply(x)

    What forward sets on its context, context.factor = 3, backward finds there.
    """

    def __new__(cls, *inputs: Any, **keywords: Any) -> Any:
        raise TypeError(f"[function] expected {cls.__name__}.apply(x), got {cls.__name__}(x): its passes are static, and apply() records the gradient")

    @staticmethod
    def forward(context: Any, *inputs: Any) -> Any:
        """The value: a tensor or a tuple. context.save(x, …) keeps what backward needs."""
        raise NotImplementedError("expected a forward(context, *inputs)")

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        """The gradients of the inputs, given those of the results; None for what has none."""
        raise NotImplementedError("expected a backward(context, *gradients)")

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Calls forward; gradients go through backward."""
        return _starling._custom(cls.__name__, cls.forward, cls.backward, inputs)
