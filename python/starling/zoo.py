"""Networks by name: zoo.lenet(classes=10)."""

import json as _json

from . import _starling

names = _starling._zoo_names


def make(name: str, **options):
    """A network of the zoo with some options changed."""
    net = _starling._zoo_make(name, _json.dumps(options))
    net._made = (_remake, (name, options))
    return net


def _remake(name: str, options: dict):
    return make(name, **options)


def _maker(name: str):
    def network(**options):
        return make(name, **options)

    doc, options = _starling._zoo_doc(name)
    network.__name__ = network.__qualname__ = name
    network.__doc__ = "\n".join([doc, ""] + [f"{key} = {value!r}" for key, value in options.items()])
    return network


for _name in names():
    globals()[_name] = _maker(_name)
