"""What layers of the compiled part say of themselves: their signatures, and what they were made with."""

from __future__ import annotations

import ast
import inspect
from typing import Any

from . import _starling
from ._refusals import signatures
from ._starling import ModuleBase


class _Signature:
    """The signature of a class itself: classes derived from it have their own."""

    def __init__(self, of: type, signature: inspect.Signature):
        self._of = of
        self._signature = signature

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if owner is not self._of:
            raise AttributeError("__signature__")
        return self._signature


def _signature(cls: type) -> inspect.Signature | None:
    found = signatures(getattr(vars(cls).get("__init__"), "__doc__", None) or "")
    if not found:
        return None
    parameters = []
    for one in found[0][1]:
        if one.name in ("self", "*"):
            continue
        default: Any = inspect.Parameter.empty
        if one.default is not None:
            default = ast.literal_eval(one.default)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(one.name, kind, default=default, annotation=one.kind or inspect.Parameter.empty))
    return inspect.Signature(parameters)


def _made_with(module: ModuleBase) -> str | None:
    """The options that a layer of the library was made with, those alone that are not its defaults."""
    maker, values = getattr(module, "_made", None) or (module, ())
    signature = next((_SIGNATURES[base] for base in type(module).__mro__ if base in _SIGNATURES), None)
    if maker is not None or signature is None:
        return None
    told = []
    for one, value in zip(signature.parameters.values(), values):
        if one.default is inspect.Parameter.empty:
            told.append(repr(_plain(value)))
        elif _plain(value) != _plain(one.default):
            told.append(f"{one.name}={_plain(value)!r}")
    return ", ".join(told)


def _plain(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and len(value) == 1 else value


_counted = ModuleBase.__repr__


def _repr(self: ModuleBase) -> str:
    told = _made_with(self)
    return _counted(self) if told is None else f"{type(self).__name__}({told})"


_SIGNATURES: dict[type, inspect.Signature] = {}
for _cls in vars(_starling).values():
    if isinstance(_cls, type) and issubclass(_cls, ModuleBase) and _cls is not _starling.PyModule:
        _found = _signature(_cls)
        if _found is not None:
            _SIGNATURES[_cls] = _found
            setattr(_cls, "__signature__", _Signature(_cls, _found))
setattr(ModuleBase, "__repr__", _repr)
