"""Modules: networks and their parts."""

from __future__ import annotations

import json as _json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from . import _starling
from . import _layers, _parts  # noqa: F401 - give all modules their words, walks and hooks
from ._kinds import camel as _camel
from ._kinds import describe as _describe
from ._starling import (  # noqa: F401
    BatchNorm1d as BatchNorm1d,
    BatchNorm2d as BatchNorm2d,
    BatchNorm3d as BatchNorm3d,
    Conv1d as Conv1d,
    Conv2d as Conv2d,
    Conv3d as Conv3d,
    ConvTranspose1d as ConvTranspose1d,
    ConvTranspose2d as ConvTranspose2d,
    ConvTranspose3d as ConvTranspose3d,
    Dropout as Dropout,
    Embedding as Embedding,
    GroupNorm as GroupNorm,
    Gru as Gru,
    LayerNorm as LayerNorm,
    Linear as Linear,
    Lstm as Lstm,
    ModuleBase as ModuleBase,
    MultiHeadAttention as MultiHeadAttention,
    RmsNorm as RmsNorm,
    Rnn as Rnn,
    Tensor as Tensor,
)


if TYPE_CHECKING:
    from ._typed_nn import *  # noqa: F403

    class Parameter(Tensor):  # what reading the attribute gives
        def __init__(self, data: Any) -> None: ...

        tensor: Tensor

else:

    class Parameter:
        """A tensor to be trained: assign it to an attribute of a module."""

        def __init__(self, data: Any):
            self.tensor = _starling.tensor(data)
            self.tensor.requires_grad = True

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(self.tensor, name)

        def __repr__(self) -> str:
            return f"Parameter({self.tensor!r})"

    def _operator(name: str) -> Any:
        def apply(self: Parameter, *others: Any) -> Any:
            return getattr(self.tensor, name)(*(other.tensor if isinstance(other, Parameter) else other for other in others))

        return apply

    for _name in "add radd sub rsub mul rmul truediv rtruediv pow rpow matmul rmatmul neg getitem len".split():
        setattr(Parameter, f"__{_name}__", _operator(f"__{_name}__"))


class Module(_starling.PyModule):
    """A network or a part of one, written in Python:

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, width)
            self.scale = nn.Parameter(starling.ones(width))

        def forward(self, x):
            return x + self.scale * self.fc(x).relu()

    Modules and parameters that are assigned to attributes become parts of it, under the attribute's name. A module or Parameter
    assigned there later takes the place of the first; create optimizers and compiled functions afterwards. Two layers share a weight
    by self.out.weight = self.embed.weight.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not _starling._is_made(self):
            raise TypeError(f"[module] expected {type(self).__name__}.__init__ to call super().__init__() first, before it sets self.{name}")
        if isinstance(value, Parameter):
            value = self._own_parameter(name, value.tensor)
        elif isinstance(value, ModuleBase):
            self._own_module(name, value)
        elif self._owns(name):
            raise TypeError(
                f"[module] expected a Parameter in the place of the parameter or buffer '{name}', got {type(value).__name__}: write its "
                f"values by self.{name}.assign(value), take it out of training by self.{name}.requires_grad = False"
            )
        elif name in self.children:
            raise TypeError(f"[module] expected a module in the place of '{name}', got {type(value).__name__}: nn.Identity() does nothing there")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if self._owns(name) or name in self.children:
            raise TypeError(f"[module] expected '{name}' to stay: a part of a module can be replaced, not removed; nn.Identity() does nothing there")
        object.__delattr__(self, name)

    def _owns(self, name: str) -> bool:
        path = f"{self.name}.{name}" if self.name else name
        return name in self._own_parameters() or path in ModuleBase.named_buffers(self)

    def parameters(self) -> list[Any]:
        """Parameters of this module and all below it, in order."""
        _expect_built(self)
        return super().parameters()

    def trainable_parameters(self) -> list[Any]:
        """Those of parameters() that want gradients."""
        _expect_built(self)
        return super().trainable_parameters()

    def named_parameters(self) -> dict[str, Any]:
        """Parameters of this module and all below it by their paths: a dict."""
        _expect_built(self)
        return super().named_parameters()

    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name: the tensors themselves."""
        _expect_built(self)
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> Any:
        """Copies tensors by their names. strict=False: those that fit. Returns what was loaded, missing and unexpected."""
        _expect_built(self)
        return super().load_state_dict(state, strict)

    def build(self, *samples: Any, dtype: Any = "f32") -> "Module":
        """Makes the weights of layers that take their sizes from the input, given the shapes of one sample each."""
        training = self.training
        self.eval()
        try:
            with _starling.GradScope(False):
                self(*[_starling.zeros((1, *shape), dtype) for shape in samples])
        finally:
            self.train(training)
        return self

    def register_buffer(self, name: str, value: Any) -> None:
        """State without gradient, such as running statistics."""
        object.__setattr__(self, name, self._own_buffer(name, _starling.tensor(value)))

    def register_parameter(self, name: str, value: Any) -> None:
        """A parameter under a name, as by assigning a Parameter to the attribute; None: the attribute is None."""
        setattr(self, name, value if value is None or isinstance(value, Parameter) else Parameter(value))

    def register_forward_pre_hook(self, hook: Any) -> Any:
        """Calls hook(module, inputs) before every call; what it returns, if anything, takes the place of the inputs."""
        return self._add_hook("_hooks_before", hook)

    def register_forward_hook(self, hook: Any) -> Any:
        """Calls hook(module, inputs, outputs) after every call; what it returns, if anything, takes the place of the outputs."""
        return self._add_hook("_hooks_after", hook)

    def _add_hook(self, kind: str, hook: Any) -> Any:
        hooks = self.__dict__.setdefault(kind, {})
        number = max(hooks, default=0) + 1
        hooks[number] = hook
        return _parts.HookHandle(lambda: hooks.pop(number, None))

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        for hook in list(self.__dict__.get("_hooks_before", {}).values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        result = self._run(inputs, keywords)
        for hook in list(self.__dict__.get("_hooks_after", {}).values()):
            changed = hook(self, inputs, result)
            result = result if changed is None else changed
        return result

    def _run(self, inputs: Any, keywords: Any) -> Any:
        if not keywords and all(value is None or isinstance(value, Tensor) for value in inputs):
            return self._call(*inputs)
        with _starling.Scope(self.name.rpartition(".")[2] or type(self).__name__.lower()):
            return self.forward(*inputs, **keywords)

    def forward(self, *inputs: Any) -> Any:
        """What the module computes: to be written by every class."""
        raise NotImplementedError(f"[{type(self).__name__}] expected a method forward(self, x)")

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__}("]
        for name, child in self.children.items():
            lines.append(f"  {name}: " + repr(child).replace("\n", "\n  "))
        return "\n".join(lines) + ("\n)" if len(lines) > 1 else ")")


class Sequential(Module):
    """Modules one after another; also functions of one tensor: Sequential(a, b), Sequential([a, b]), or by name Sequential({"first": a})."""

    _steps: list[Any]
    _step_names: list[str]

    def __init__(self, *steps: Any):
        super().__init__()
        if len(steps) == 1 and isinstance(steps[0], Mapping):
            names, steps = list(steps[0]), tuple(steps[0].values())
        else:
            if len(steps) == 1 and isinstance(steps[0], (list, tuple)):
                steps = tuple(steps[0])
            names = [str(i) for i in range(len(steps))]
        object.__setattr__(self, "_steps", [])
        object.__setattr__(self, "_step_names", [])
        for name, step in zip(names, steps):
            self._add(name, step)

    def _add(self, name: Any, step: Any) -> None:
        if not isinstance(name, str) or not callable(step):
            raise TypeError(f"[sequential] expected modules and functions, in their order or by names, got {step!r} at {name!r}")
        if isinstance(step, ModuleBase):
            self._own_module(name, step)
        self._steps.append(step)
        self._step_names.append(name)

    def append(self, step: Any) -> Sequential:
        """Adds a module or function at the end; returns the network."""
        self._add(str(len(self._steps)), step)
        return self

    def forward(self, x: Any) -> Any:
        """The steps one after another."""
        for step in self._steps:
            x = step(x)
        return x

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, i: Any) -> Any:
        """A step, or for a slice a list of them as a function: net[:-1](x). Its modules stay this network's."""
        return _Steps(self._steps[i]) if isinstance(i, slice) else self._steps[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._steps)

    def __setitem__(self, i: int, step: Any) -> None:
        i = range(len(self._steps))[i]
        name = self._step_names[i]
        if isinstance(step, ModuleBase):
            self._own_module(name, step)
        elif isinstance(self._steps[i], ModuleBase) or not callable(step):
            raise TypeError(f"[module] expected a module in the place of '{name}', got {type(step).__name__}")
        self._steps[i] = step


class _Steps(list[Any]):
    """Steps of a Sequential that are called one after another. A part belongs to one network: these stay where they are."""

    def __call__(self, x: Any) -> Any:
        for step in self:
            x = step(x)
        return x

    def parameters(self) -> list[Any]:
        return [parameter for step in self if isinstance(step, ModuleBase) for parameter in step.parameters()]


class ModuleDict(Module):
    """Modules by name, to be called by the module that owns them."""

    def __init__(self, modules: Any = ()):
        super().__init__()
        for name, module in modules.items() if hasattr(modules, "items") else modules:
            self[name] = module

    def __setitem__(self, name: str, module: Any) -> None:
        self._own_module(name, module)

    def __getitem__(self, name: str) -> Any:
        return self.children[name]

    def __contains__(self, name: object) -> bool:
        return name in self.children

    def __iter__(self) -> Iterator[str]:
        return iter(self.children)

    def __len__(self) -> int:
        return len(self.children)

    def keys(self) -> Any:
        """Names of the modules."""
        return self.children.keys()

    def values(self) -> Any:
        """The modules."""
        return self.children.values()

    def items(self) -> Any:
        """Names and modules."""
        return self.children.items()


class ModuleList(Module):
    """A list of modules, to be called by the module that owns it."""

    _modules: list[Any]

    def __init__(self, modules: Iterable[Any] = ()):
        super().__init__()
        object.__setattr__(self, "_modules", [])
        for module in modules:
            self.append(module)

    def append(self, module: Any) -> None:
        """Adds a module at the end."""
        self._own_module(str(len(self._modules)), module)
        self._modules.append(module)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, i: int) -> Any:
        return self._modules[i]


class ParameterList(Module):
    """A list of parameters: ParameterList([starling.ones(2)])."""

    def __init__(self, parameters: Iterable[Any] = ()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter: Any) -> ParameterList:
        """Adds a parameter, or what becomes one, at the end; returns the list."""
        setattr(self, str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __len__(self) -> int:
        return len(self._own_parameters())

    def __getitem__(self, i: int) -> Any:
        return self._own_parameters()[str(range(len(self))[i])]

    def __setitem__(self, i: int, parameter: Any) -> None:
        setattr(self, str(range(len(self))[i]), parameter if isinstance(parameter, Parameter) else Parameter(parameter))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def declared(layers: Any, sample: Any) -> ModuleBase:
    """A network from a list of layers as in job files, for samples of this shape (without the batch)."""
    text = layers if isinstance(layers, str) else _json.dumps(layers)
    net = _starling._declared(text, sample)
    net._made = (declared, (text, sample))
    return net


class _Layer(Module):
    """A layer by its name in job files. Sizes that follow from the input are taken from its first one."""

    _kind = ""
    _names: tuple[str, ...] = ()  # of the options, in their order
    _options: str
    _built: Any

    def __init__(self, *values: Any, **options: Any):
        super().__init__()
        if len(values) > len(self._names):
            raise TypeError(f"[{self._kind}] expected at most {len(self._names)} values by position, got {len(values)}")
        for torchs, ours in (("dim", "axis"), ("kernel_size", "kernel")):
            if torchs in options and ours in self._names:
                options[ours] = options.pop(torchs)
        for name, value in zip(self._names, values):
            if name in options:
                raise TypeError(f"[{self._kind}] expected one value for {name}, got two")
            options[name] = value
        text = _json.dumps(options)
        _starling._check_layer(self._kind, text)
        object.__setattr__(self, "_options", text)
        object.__setattr__(self, "_built", None)

    def forward(self, *inputs: Any) -> Any:
        """What the layer computes; at the first call it is made."""
        if self._built is None:
            self._make([(tuple(x.shape[1:]), x.dtype) for x in map(_starling.asarray, inputs)])
        return self._built(*inputs)

    def _make(self, samples: list[Any]) -> None:
        def make() -> Any:  # now, also where a program is being made: its weights are values
            inputs = [_starling.zeros((1, *shape), dtype) for shape, dtype in samples]
            return _starling._make_layer(self._kind, self._options, inputs)

        built = _starling._eagerly(make)
        built._made = (_remake_layer, (self._kind, self._options, samples))
        built.train(self.training)
        self._own_module("layer", built)
        object.__setattr__(self, "_built", built)

    def _has_weights(self) -> bool:
        """Whether this layer, not built yet, will have weights: as far as samples of usual shapes can tell."""
        for dtype in ("f32", "i64"):
            for rank in range(1, 5):
                try:
                    sample = [_starling.zeros((1,) + (8,) * rank, dtype)]
                    return _starling._make_layer(self._kind, self._options, sample).parameter_count > 0
                except _starling.Error:
                    continue
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._options.strip('{}')})"


def _remake_layer(kind: str, options: str, samples: list[Any]) -> ModuleBase:
    built = _starling._make_layer(kind, options, [_starling.zeros((1, *shape), dtype) for shape, dtype in samples])
    built._made = (_remake_layer, (kind, options, samples))
    return built


def _layers_below(module: ModuleBase) -> Iterator["_Layer"]:
    if isinstance(module, _Layer):
        yield module
    for child in module.children.values():
        yield from _layers_below(child)


def _expect_built(module: ModuleBase) -> None:
    if not module.name:  # a shared parameter is named by where it is first
        module._rename()
    for layer in _layers_below(module):
        if layer._built is None and layer._has_weights():
            raise _starling.Error(
                f"[module] expected layers that have their weights, got {type(layer).__name__} '{layer.name}', which makes "
                "them at its first call: call the net once before, or net.build(shape of a sample)"
            )


for _name, (_doc, _schema, _options) in _starling._layer_kinds().items():
    _class = _camel(_name)
    if _name.endswith("dropout"):
        _doc += " In compiled functions it drops the same at every call until optimizer.step() or starling.next_step()."
    if _class not in globals():
        _members = {"_kind": _name, "_names": tuple(_options), "__doc__": _describe(_doc, _schema), "__module__": __name__}
        globals()[_class] = type(_class, (_Layer,), _members)
    elif not globals()[_class].__doc__:  # of the compiled part; its options are the signature's
        setattr(globals()[_class], "__doc__", _doc)


# Names that PyTorch has for the same layers.
for _torchs, _ours in {
    "ReLU": "Relu",
    "ReLU6": "Relu6",
    "LeakyReLU": "LeakyRelu",
    "PReLU": "Prelu",
    "ELU": "Elu",
    "SELU": "Selu",
    "CELU": "Celu",
    "GELU": "Gelu",
    "SiLU": "Silu",
    "GLU": "Glu",
    "LSTM": "Lstm",
    "GRU": "Gru",
    "RNN": "Rnn",
    "LSTMCell": "LstmCell",
    "GRUCell": "GruCell",
    "RNNCell": "RnnCell",
    "RMSNorm": "RmsNorm",
    "MultiheadAttention": "MultiHeadAttention",
    "Dropout2d": "ChannelDropout",
}.items():
    globals()[_torchs] = globals()[_ours]

from . import _functional as functional, _init as init  # noqa: E402,F401 - after what they are made of
from ._losses import (  # noqa: E402,F401
    BCELoss as BCELoss,
    BCEWithLogitsLoss as BCEWithLogitsLoss,
    CrossEntropyLoss as CrossEntropyLoss,
    HuberLoss as HuberLoss,
    KLDivLoss as KLDivLoss,
    L1Loss as L1Loss,
    MSELoss as MSELoss,
    NLLLoss as NLLLoss,
    SmoothL1Loss as SmoothL1Loss,
)
