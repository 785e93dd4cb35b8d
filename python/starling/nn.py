"""Modules: networks and their parts."""

from __future__ import annotations

import json as _json
from typing import Any, Iterable

from . import _starling
from ._starling import (  # noqa: F401
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Dropout,
    Embedding,
    GroupNorm,
    Gru,
    LayerNorm,
    Linear,
    Lstm,
    ModuleBase,
    MultiHeadAttention,
    RmsNorm,
    Rnn,
    Tensor,
)


class Parameter:
    """A tensor to be trained: assign it to an attribute of a module."""

    def __init__(self, data: Any):
        self.tensor = _starling.tensor(data)
        self.tensor.requires_grad = True


class Module(_starling.PyModule):
    """A network or a part of one, written in Python:

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, width)
            self.scale = nn.Parameter(starling.ones(width))

        def forward(self, x):
            return x + self.scale * self.fc(x).relu()

    Modules and parameters that are assigned to attributes become parts of it, under the attribute's name.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            value = self._own_parameter(name, value.tensor)
        elif isinstance(value, Tensor) and self._owns(name):
            raise TypeError(
                f"[module] expected another name than that of the parameter or buffer '{name}': self.{name}.assign(value)"
            )
        elif isinstance(value, ModuleBase):
            self._own_module(name, value)
        object.__setattr__(self, name, value)

    def _owns(self, name: str) -> bool:
        path = f"{self.name}.{name}" if self.name else name
        return path in self.named_parameters() or path in self.named_buffers()

    def register_buffer(self, name: str, value: Any) -> None:
        """State without gradient, such as running statistics."""
        object.__setattr__(self, name, self._own_buffer(name, _starling.tensor(value)))

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        if not keywords and all(value is None or isinstance(value, Tensor) for value in inputs):
            return self._call(*inputs)
        with _starling.Scope(self.name.rpartition(".")[2] or type(self).__name__.lower()):
            return self.forward(*inputs, **keywords)

    def forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(f"[{type(self).__name__}] expected a method forward(self, x)")

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}("]
        for name, child in self.children.items():
            lines.append(f"  {name}: " + repr(child).replace("\n", "\n  "))
        return "\n".join(lines) + ("\n)" if len(lines) > 1 else ")")


class Sequential(Module):
    """Modules one after another; also functions of one tensor."""

    def __init__(self, *steps: Any):
        super().__init__()
        object.__setattr__(self, "_steps", list(steps))
        for i, step in enumerate(steps):
            if isinstance(step, ModuleBase):
                self._own_module(str(i), step)

    def forward(self, x: Any) -> Any:
        for step in self._steps:
            x = step(x)
        return x

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, i: int) -> Any:
        return self._steps[i]


class ModuleList(Module):
    """A list of modules, to be called by the module that owns it."""

    def __init__(self, modules: Iterable = ()):
        super().__init__()
        object.__setattr__(self, "_modules", [])
        for module in modules:
            self.append(module)

    def append(self, module: Any) -> None:
        self._own_module(str(len(self._modules)), module)
        self._modules.append(module)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, i: int) -> Any:
        return self._modules[i]


def declared(layers: Any, sample: Any) -> ModuleBase:
    """A network from a list of layers as in job files, for samples of this shape (without the batch)."""
    return _starling._declared(layers if isinstance(layers, str) else _json.dumps(layers), sample)


class _Layer(Module):
    """A layer by its name in job files. Sizes that follow from the input are taken from its first one."""

    _kind = ""

    def __init__(self, **options: Any):
        super().__init__()
        text = _json.dumps(options)
        _starling._check_layer(self._kind, text)
        object.__setattr__(self, "_options", text)
        object.__setattr__(self, "_built", None)

    def forward(self, *inputs: Any) -> Any:
        if self._built is None:
            built = _starling._make_layer(self._kind, self._options, inputs)
            built.train(self.training)
            self._own_module("layer", built)
            object.__setattr__(self, "_built", built)
        return self._built(*inputs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options.strip('{}')})"


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _describe(doc: str, schema: dict) -> str:
    lines = [doc, ""]
    for key, value in schema.get("properties", {}).items():
        default = f" (default {value['default']!r})" if "default" in value else ""
        lines.append(f"{key}: {value.get('description', '')}{default}")
    return "\n".join(lines)


for _name, (_doc, _schema) in _starling._layer_kinds().items():
    _class = _camel(_name)
    if _class not in globals():
        globals()[_class] = type(_class, (_Layer,), {"_kind": _name, "__doc__": _describe(_doc, _schema)})
