"""Networks by name: zoo.lenet(classes=10)."""

from __future__ import annotations

import json as _json
from typing import TYPE_CHECKING, Any, Callable

from . import _starling
from ._starling import ModuleBase as _ModuleBase

if TYPE_CHECKING:
    from ._typed_zoo import *  # noqa: F403

names = _starling._zoo_names


def make(name: str, **options: Any) -> _ModuleBase:
    """A network of the zoo with some options changed."""
    net = _starling._zoo_make(name, _json.dumps(options))
    net._made = (_remake, (name, options))
    return net


def _remake(name: str, options: dict[str, Any]) -> _ModuleBase:
    return make(name, **options)


def _maker(name: str) -> Callable[..., _ModuleBase]:
    def network(**options: Any) -> _ModuleBase:
        return make(name, **options)

    doc, options = _starling._zoo_doc(name)
    network.__name__ = network.__qualname__ = name
    network.__doc__ = "\n".join([doc, ""] + [f"{key} = {value!r}" for key, value in options.items()])
    return network


for _name in names():
    globals()[_name] = _maker(_name)
