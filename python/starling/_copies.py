"""Copies and pickles of modules: how each was made, its own tensors, its parts.

A module written in Python is made anew without its __init__ and given its attributes back; a layer or network of the library
is made with the same arguments and given its values and attributes back. Which tensors are trained, and the mode of every
part, are kept one by one.
"""

from __future__ import annotations

from typing import Any, Iterator

from . import _starling
from ._starling import ModuleBase, PyModule

def _frozen(module: ModuleBase) -> bool:
    return bool(ModuleBase.parameters(module)) and not ModuleBase.trainable_parameters(module)


def _own(module: ModuleBase, tensors: dict[str, Any]) -> dict[str, Any]:
    """Of the tensors below a module those that are its own, by their names in it."""
    start = len(module.name) + 1 if module.name else 0
    return {path[start:]: tensor for path, tensor in tensors.items() if "." not in path[start:]}


def _blank(cls: Any) -> Any:
    module = cls.__new__(cls)
    PyModule.__init__(module)
    return module


def _restore_python(module: Any, state: dict[str, Any]) -> None:
    for name, tensor in state["parameters"].items():
        own = module._own_parameter(name, tensor)
        own.requires_grad = state["trained"][name]
        if name in state["shown"]:
            object.__setattr__(module, name, own)
    for name, tensor in state["buffers"].items():
        object.__setattr__(module, name, module._own_buffer(name, tensor))
    for name, child in state["children"].items():
        module._own_module(name, child)
    for name, value in state["attributes"].items():
        object.__setattr__(module, name, value)
    _tie(module, state["tied"])
    if state["frozen"]:
        module.freeze()
    _set_modes(module, {**_modes(module), "": state["training"]})  # parts came with their own


def _parts(module: ModuleBase, path: str = "") -> Iterator[tuple[str, ModuleBase]]:
    """A module and all below it by their paths, from the top down."""
    yield path, module
    for name, child in module.children.items():
        yield from _parts(child, f"{path}.{name}" if path else name)


def _modes(module: ModuleBase) -> dict[str, bool]:
    return {path: part.training for path, part in _parts(module)}


def _set_modes(module: ModuleBase, modes: dict[str, bool]) -> None:
    parts = dict(_parts(module))
    _expect_same("parts", sorted(parts), sorted(modes))
    for path, part in parts.items():  # from the top down: train() reaches all below, whose own modes follow
        part.train(modes[path])


def _put_modes_back(module: ModuleBase, modes: dict[str, bool]) -> None:
    """Modes as they were; parts that were made since, such as layers at their first call, work as the part that made them."""
    for path, part in list(_parts(module)):
        if path in modes:
            part.train(modes[path])


def _expect_same(what: str, own: list[Any], given: list[Any]) -> None:
    if own != given:
        raise ValueError(f"[module] expected a copy with the {what} {own}, got {given}: was it pickled by another version?")


def _shareable(module: ModuleBase) -> dict[str, Any]:
    """Parameters of a part that may be another's too, by the attributes that they are assigned to."""
    if isinstance(module, PyModule):
        return dict(module._own_parameters())
    return {"weight": module.weight} if isinstance(module, (_starling.Linear, _starling.Embedding)) else {}


def _ties(module: ModuleBase) -> list[list[tuple[str, str]]]:
    """Places, (path of the part, name), that hold one parameter together."""
    places: dict[Any, list[tuple[str, str]]] = {}
    for path, part in _parts(module):
        for name, tensor in _shareable(part).items():
            places.setdefault(tensor, []).append((path, name))
    return [each for each in places.values() if len(each) > 1]


def _tie(module: ModuleBase, ties: list[list[tuple[str, str]]]) -> None:
    parts = dict(_parts(module))
    for (first, name), *others in ties:
        shared = _shareable(parts[first])[name]
        for path, own in others:
            part = parts[path]
            if not isinstance(part, PyModule):
                setattr(part, own, shared)
                continue
            part._own_parameter(own, shared)
            if own in part.__dict__:
                object.__setattr__(part, own, shared)


def _reduce_python(module: Any, protocol: int = 0) -> tuple[Any, ...]:
    parameters = module._own_parameters()
    buffers = _own(module, ModuleBase.named_buffers(module))
    attributes = {k: v for k, v in module.__dict__.items() if k not in parameters and k not in buffers}
    state = {
        "parameters": parameters,
        "shown": [name for name in parameters if name in module.__dict__],
        "tied": _ties(module),
        "trained": {name: tensor.requires_grad for name, tensor in parameters.items()},
        "buffers": buffers,
        "children": dict(module.children),
        "attributes": attributes,
        "training": module.training,
        "frozen": _frozen(module),
    }
    return _blank, (type(module),), state


def _make(cls: Any, maker: Any, arguments: tuple[Any, ...]) -> Any:
    if maker is not None:
        return maker(*arguments)
    # A subclass may take other arguments: the layer of the library below it is made with those that it was made with.
    layer = next(base for base in cls.__mro__ if base.__module__ == ModuleBase.__module__)
    module = cls.__new__(cls)
    layer.__init__(module, *arguments)
    return module


def _restore_made(module: Any, state: dict[str, Any]) -> None:
    if state["dtype"]:
        module.to(state["dtype"])
    own = list(ModuleBase.state_dict(module).values())
    _expect_same("shapes", [tensor.shape for tensor in own], [value.shape for value in state["values"]])
    for tensor, value in zip(own, state["values"]):
        tensor.assign(value)
    if state["frozen"]:
        module.freeze()
    for tensor, trained in zip(own, state["trained"]):
        if tensor.requires_grad != trained:
            tensor.requires_grad = trained
    _set_modes(module, state["modes"])
    module.__dict__.update(state["attributes"])


def _reduce_made(module: Any, protocol: int = 0) -> tuple[Any, ...]:
    made = getattr(module, "_made", None)
    if made is None:
        raise TypeError(
            f"[module] expected a module that was made from Python, got {module!r}, a part of another one: "
            "copy that one, or keep its state_dict()"
        )
    tensors = list(ModuleBase.state_dict(module).values())
    values = [tensor.detach() for tensor in tensors]
    floats = [value.dtype.name for value in values if value.dtype.is_float]
    state = {
        "values": values,
        "dtype": floats[0] if floats else "",
        "trained": [tensor.requires_grad for tensor in tensors],
        "modes": _modes(module),
        "attributes": {name: value for name, value in module.__dict__.items() if name != "_made"},
        "frozen": _frozen(module),
    }
    return _make, (type(module), *made), state


def _copy(module: Any) -> Any:
    raise TypeError(
        f"[module] expected copy.deepcopy({type(module).__name__}): a part belongs to one network, whose names its tensors "
        "bear, so that no other one can share it"
    )


setattr(ModuleBase, "__copy__", _copy)
setattr(ModuleBase, "__reduce_ex__", _reduce_made)
setattr(ModuleBase, "__setstate__", _restore_made)
setattr(PyModule, "__reduce_ex__", _reduce_python)
setattr(PyModule, "__setstate__", _restore_python)
