"""Gradients: scopes, transforms of functions, functions with gradients of one's own."""

from __future__ import annotations

import functools
from typing import Any, Callable

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
        if not 0 <= place < count:
            raise ValueError(f"[grad] expected argnums within the {count} arguments, got {place}")
    return places


def value_and_grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that returns (value, gradient) of a function with one output element."""

    @functools.wraps(function)
    def both(*arguments: Any) -> Any:
        places = _places(argnums, len(arguments))

        def of_chosen(*chosen: Any) -> Any:
            all_of_them = list(arguments)
            for place, tensor in zip(places, chosen):
                all_of_them[place] = tensor
            return function(*all_of_them)

        value, gradients = _starling._value_and_grad(of_chosen, [arguments[place] for place in places])
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return both


def grad(function: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The gradient of a function with one output element, as a function: grad(grad(f)) is the second derivative."""
    both = value_and_grad(function, argnums)

    @functools.wraps(function)
    def gradient(*arguments: Any) -> Any:
        return both(*arguments)[1]

    return gradient


def vjp(function: Callable[..., Any], *inputs: Any) -> Any:
    """(outputs, pullback): the pullback takes cotangents of the outputs to gradients of the inputs."""
    return _starling._vjp(function, inputs)


def jvp(function: Callable[..., Any], inputs: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
    """(outputs, their directional derivatives along the tangents)."""
    return _starling._jvp(function, inputs, tangents)


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
    """

    @staticmethod
    def forward(context: Any, *inputs: Any) -> Any:
        raise NotImplementedError("expected a forward(context, *inputs)")

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        raise NotImplementedError("expected a backward(context, *gradients)")

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        return _starling._custom(cls.__name__, cls.forward, cls.backward, inputs)
