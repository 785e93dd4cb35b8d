"""Signatures and docstrings of ops, as the registry has them: for help(), inspect.signature() and editors."""

from __future__ import annotations

import inspect
import keyword
from typing import Any, Callable

from . import _starling

_POSITIONAL, _KEYWORD, _ANY = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL


def kind_of(default: Any) -> str:
    """The type of an attribute, as annotations write it, told by its default."""
    if isinstance(default, (tuple, list)):
        return "int | Sequence[int]"
    if isinstance(default, _starling.DType):
        return "DTypeLike"
    return type(default).__name__


def inputs_of(op: Any) -> list[tuple[str, bool]]:
    """Names of an op's inputs, and whether each may be left out; one that ends with ... stands for any number."""
    return [(name.rstrip("?"), name.endswith("?")) for name in op.inputs]


def signature_of(op: Any) -> inspect.Signature:
    """Inputs by position or name, attributes by name with their defaults."""
    parameters = []
    for name, optional in inputs_of(op):
        if name.endswith("..."):
            parameters.append(inspect.Parameter(name[:-3], _ANY, annotation="TensorLike"))
            continue
        default = None if optional else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, _POSITIONAL, default=default, annotation="TensorLike" + " | None" * optional))
    for name, default in op.attributes.items():
        if keyword.iskeyword(name) or any(name == one.name for one in parameters):  # goes as **{"global": …}; or is an input's
            continue
        parameters.append(inspect.Parameter(name, _KEYWORD, default=default, annotation=kind_of(default)))
    result = "Tensor" if len(op.outputs) == 1 and not op.outputs[0].endswith("...") else "tuple[Tensor, ...]"
    return inspect.Signature(parameters, return_annotation=result)


def describe(op: Any) -> str:
    """A docstring: the call, what the op is, and whether it has a gradient."""
    lines = [f"{op.name}{_plain(signature_of(op))}", "", op.doc]
    if not op.differentiable:
        lines.append("It has no gradient.")
    return "\n".join(lines)


def _plain(signature: inspect.Signature) -> str:
    parts = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(parts))


def with_signature(function: Any, op: Any) -> Callable[..., Any]:
    """A function of the compiled part that takes attributes by name, saying which they are."""

    def call(*inputs: Any, **attributes: Any) -> Any:
        return function(*inputs, **attributes)

    call.__name__ = call.__qualname__ = function.__name__
    call.__module__ = "starling"
    call.__doc__ = op.doc
    setattr(call, "__signature__", signature_of(op).replace(return_annotation="Tensor"))
    return call


def functions_of_attributes(names: dict[str, Any], ops: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    """Of the functions of the compiled part those that take attributes as any keywords, with their signatures."""
    made = {}
    for name, function in names.items():
        if name in ops and "**attributes" in (getattr(function, "__doc__", None) or ""):
            made[name] = with_signature(function, ops[name])
    return made
