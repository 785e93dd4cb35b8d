"""Copies and pickles of modules: how each was made, its own tensors, its parts.

A module written in Python is made anew without its __init__ and given its attributes back; a layer or network of the library
is made with the same arguments and given its values back.
"""

from __future__ import annotations

import weakref
from typing import Any, Iterator

from . import _starling
from ._starling import ModuleBase, PyModule, Tensor

# One Python object per tensor: what pickle and deepcopy have seen before they keep as one, so that shared weights stay shared.
_one_of_each: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def _same_object(tensor: Tensor) -> Tensor:
    return _one_of_each.setdefault(hash(tensor), tensor)


def _frozen(module: ModuleBase) -> bool:
    return bool(ModuleBase.parameters(module)) and not ModuleBase.trainable_parameters(module)


def _own(module: ModuleBase, tensors: dict[str, Any]) -> dict[str, Any]:
    """Of the tensors below a module those that are its own, by their names in it."""
    start = len(module.name) + 1 if module.name else 0
    return {path[start:]: _same_object(tensor) for path, tensor in tensors.items() if "." not in path[start:]}


def _blank(cls: Any) -> Any:
    module = cls.__new__(cls)
    PyModule.__init__(module)
    return module


def _restore_python(module: Any, state: dict[str, Any]) -> None:
    for name, tensor in state["parameters"].items():
        object.__setattr__(module, name, module._own_parameter(name, tensor))
    for name, tensor in state["buffers"].items():
        object.__setattr__(module, name, module._own_buffer(name, tensor))
    for name, child in state["children"].items():
        module._own_module(name, child)
    for name, value in state["attributes"].items():
        object.__setattr__(module, name, value)
    _set_mode(module, state)


def _parts(module: ModuleBase) -> Iterator[ModuleBase]:
    for child in module.children.values():
        yield child
        yield from _parts(child)


def _set_mode(module: Any, state: dict[str, Any]) -> None:
    modes = [(part, part.training) for part in _parts(module)]
    module.train(state["training"])
    for part, training in modes:  # parts keep their own, from the top down
        part.train(training)
    if state["frozen"]:
        module.freeze()


def _reduce_python(module: Any, protocol: int = 0) -> tuple[Any, ...]:
    parameters = _own(module, ModuleBase.named_parameters(module))
    buffers = _own(module, ModuleBase.named_buffers(module))
    attributes = {k: v for k, v in module.__dict__.items() if k not in parameters and k not in buffers}
    state = {
        "parameters": parameters,
        "buffers": buffers,
        "children": dict(module.children),
        "attributes": attributes,
        "training": module.training,
        "frozen": _frozen(module),
    }
    return _blank, (type(module),), state


def _make(cls: type, maker: Any, arguments: tuple[Any, ...]) -> Any:
    return (maker or cls)(*arguments)


def _restore_made(module: Any, state: dict[str, Any]) -> None:
    if state["dtype"]:
        module.to(state["dtype"])
    for tensor, value in zip(ModuleBase.state_dict(module).values(), state["values"]):
        tensor.assign(value)
    module.train(state["training"])
    if state["frozen"]:
        module.freeze()


def _reduce_made(module: Any, protocol: int = 0) -> tuple[Any, ...]:
    made = getattr(module, "_made", None)
    if made is None:
        raise TypeError(
            f"[module] expected a module that was made from Python, got {module!r}, a part of another one: "
            "copy that one, or keep its state_dict()"
        )
    values = [tensor.detach() for tensor in ModuleBase.state_dict(module).values()]
    floats = [value.dtype.name for value in values if value.dtype.is_float]
    state = {
        "values": values,
        "dtype": floats[0] if floats else "",
        "training": module.training,
        "frozen": _frozen(module),
    }
    return _make, (type(module), *made), state


setattr(ModuleBase, "__reduce_ex__", _reduce_made)
setattr(ModuleBase, "__setstate__", _restore_made)
setattr(PyModule, "__reduce_ex__", _reduce_python)
setattr(PyModule, "__setstate__", _restore_python)
